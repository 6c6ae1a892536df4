"""The form of what a function is called with: everything but the numbers in tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import attrs
import torch
from torch import Tensor

KeptT = TypeVar("KeptT")

_PLAIN_VALUES = (str, int, float, bool, type(None), torch.dtype)


class FormTable(Generic[KeptT]):
    """Keeps something for each form of inputs.

    It is made of shapes, strides, types and devices of tensors in nested dicts, tuples and lists, of their names and
    order, and of what is no tensor.

    Forms are compared, not hashed: torch compares all tensors in one call, a fifteenth of the time in which Python asks
    each for its form and hashes that.

    Args:
        make: what is kept for a form that comes for the first time.
        most: so many forms are kept.
    """

    def __init__(self, make: Callable[[], KeptT], *, most: int) -> None:
        self._make, self._most = make, most
        self._entries: list[_Entry[KeptT]] = []

    def find(self, inputs: Any) -> tuple[list[Tensor] | None, KeptT | None]:
        """The tensors in the inputs, in their order, and what is kept for their form.

        Returns:
            None for the tensors where the inputs hold something that has no form, such as an object; None for what is
            kept there, and where the table is full.
        """
        tensors: list[Tensor] = []
        structure: list[Any] = []
        if not _take_apart(inputs, structure, tensors):
            return None, None
        for place, entry in enumerate(self._entries):
            if entry.structure == structure and entry.has_form(*tensors):
                if place:
                    self._entries.insert(0, self._entries.pop(place))  # the next one is like this as a rule
                return tensors, entry.kept
        if len(self._entries) == self._most:
            return tensors, None
        entry = _Entry(structure, _form_check(tensors), self._make())
        self._entries.insert(0, entry)
        return tensors, entry.kept

    def values(self) -> list[KeptT]:
        """All that is kept, latest first."""
        return [entry.kept for entry in self._entries]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


def tensors_in(inputs: Any) -> list[Tensor] | None:
    """The tensors in nested dicts, tuples and lists, in their order; None where these hold something else."""
    tensors: list[Tensor] = []
    return tensors if _take_apart(inputs, [], tensors) else None


def with_tensors(inputs: Any, tensors: Iterator[Tensor]) -> Any:
    """Inputs of the same form that hold these tensors, in the order in which `tensors_in` has them."""
    if isinstance(inputs, Tensor):
        return next(tensors)
    if isinstance(inputs, dict):
        return {name: with_tensors(own, tensors) for name, own in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        parts = [with_tensors(own, tensors) for own in inputs]
        kind: Any = type(inputs)
        return kind(*parts) if hasattr(inputs, "_fields") else kind(parts)
    return inputs


@attrs.frozen
class _Entry(Generic[KeptT]):
    """A form and what is kept for it.

    Attributes:
        structure: containers, names and plain values, with a mark in the place of each tensor.
        has_form: whether as many tensors are like those that it had.
    """

    structure: list[Any]
    has_form: Callable[..., bool]
    kept: KeptT


def _take_apart(value: Any, structure: list[Any], tensors: list[Tensor]) -> bool:
    """Append what the value is made of; False where it holds something that has no form."""
    if isinstance(value, dict):
        structure.append(tuple(value))
        parts: Iterable[Any] = value.values()
    elif isinstance(value, (tuple, list)):
        structure.append((type(value), len(value)))
        parts = value
    elif isinstance(value, Tensor):
        parts = (value,)
    elif isinstance(value, _PLAIN_VALUES):
        structure.append(value)
        return True
    else:
        return False
    for own in parts:
        if isinstance(own, Tensor):  # here, for most of it is tensors, and a call for each would take twice as long
            structure.append(Tensor)
            tensors.append(own)
        elif not _take_apart(own, structure, tensors):
            return False
    return True


def _form_check(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """Whether as many tensors have shapes, strides, types and devices of these, and need gradients where these do."""
    guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if guards is None or not tensors:
        return _form_check_in_python(tensors)
    shapes, strides = [list(own.shape) for own in tensors], [list(own.stride()) for own in tensors]
    check: Callable[..., bool] = guards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
    return check


def _form_check_in_python(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """The same for releases of torch in which its compiler compares tensors otherwise."""
    forms = [_tensor_form(own) for own in tensors]
    return lambda *others: forms == [_tensor_form(own) for own in others]


def _tensor_form(tensor: Tensor) -> tuple[Any, ...]:
    return type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad
