"""The form of what a function is called with: everything but the numbers in tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

Form = tuple[Any, ...]

_PLAIN_VALUES = (str, int, float, bool, type(None), torch.dtype)


def form_of(inputs: Any, tensors: list[Tensor]) -> Form | None:
    """Shapes, strides, types and devices of tensors in nested dicts, tuples and lists, and what is no tensor; hashable.

    Args:
        inputs: what the function is called with.
        tensors: those in it are appended, in the order in which the form has them.

    Returns:
        None where the inputs hold something that has no form.
    """
    described: list[Any] = []
    return tuple(described) if _describe(inputs, described, tensors) else None


def with_tensors(inputs: Any, tensors: Iterator[Tensor]) -> Any:
    """Inputs of the same form that hold these tensors, in the order in which `form_of` has them."""
    if isinstance(inputs, Tensor):
        return next(tensors)
    if isinstance(inputs, dict):
        return {name: with_tensors(own, tensors) for name, own in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        parts = [with_tensors(own, tensors) for own in inputs]
        kind: Any = type(inputs)
        return kind(*parts) if hasattr(inputs, "_fields") else kind(parts)
    return inputs


def _describe(value: Any, form: list[Any], tensors: list[Tensor]) -> bool:
    """Append the form of a value, and the tensors in it; False where it holds something that has no form."""
    if isinstance(value, Tensor):
        tensors.append(value)
        form.append((value.shape, value.stride(), value.dtype, value.device, value.requires_grad))
        return True
    if isinstance(value, dict):
        form.append(tuple(value))
        parts: Iterable[Any] = value.values()
    elif isinstance(value, (tuple, list)):
        form.append((type(value), len(value)))
        parts = value
    elif isinstance(value, _PLAIN_VALUES):
        form.append(value)
        return True
    else:
        return False
    # No `all(…)`: a generator at every level would cost a third of this
    for own in parts:  # noqa: SIM110
        if not _describe(own, form, tensors):
            return False
    return True
