"""Operations of torch of which two take less time together than one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

OfTwo = Callable[..., Sequence[Tensor]]
"""`(tensors of the first, tensors of the second, *what is no tensor) -> results of the first, then of the second`."""

_OF_TWO: dict[Any, OfTwo] = {}


def two_at_once(operation: Any, of_two: OfTwo) -> None:
    """Say how an operation is run twice at once; recorded gradients do so where neither run waits for the other.

    Args:
        operation: an overload of torch's dispatcher that changes nothing in its place and draws nothing.
        of_two: another one, with the same numbers as `operation` twice, bit for bit. It is called where those arguments
            of the two runs that are tensors have the same shapes and types, and the others, which come behind them,
            are equal.
    """
    _OF_TWO[operation] = of_two


def of_two(operation: Any) -> OfTwo | None:
    """How two runs of an operation are one, if anybody has said so."""
    return _OF_TWO.get(operation)
