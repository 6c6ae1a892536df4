"""The tensor operations of a calculation, written down while it runs, and run again as one function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

Replay = Callable[..., Tensor]
"""`(gradient (P,), *tensors) -> statistics (S,)`; writes to the first one."""

MOST_OPERATIONS = 3000
"""Longer calculations are not recorded."""
MOST_BYTES = 1 << 19
"""Operations whose results are larger than this in the mean take so long that a recording would save nothing."""

_SAME_TENSOR = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}
_REFUSED = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


@attrs.frozen
class _Slot:
    """Stands for a tensor in the arguments of a recorded operation."""

    index: int


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operations that run while it is entered, and keeps none of their results alive.

    Args:
        inputs: tensors that differ from one run to the next, in slots 0, 1, …
        draws: operations may draw random numbers.
    """

    def __init__(self, inputs: Sequence[Tensor], *, draws: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refused = _REFUSED if draws else _REFUSED | {torch.Tag.nondeterministic_seeded}
        self._operations: list[tuple[Any, Any, Any, Any]] = []
        self._slots: Any = WeakTensorKeyDictionary()
        self._n_slots = self._n_bytes = 0
        self._constants: dict[int, Tensor] = {}
        self._is_refused = False
        for tensor in inputs:
            self._add(tensor)
        self._memory_of_inputs = {_memory_of(tensor) for tensor in inputs}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; otherwise torch loads its whole compiler first, which takes seconds."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._is_refused |= any(tag in function.tags for tag in self._refused) or self._writes_to_input(function, args)
        read = self._written_down(args), self._written_down(kwargs)
        result = function(*args, **kwargs)
        for tensor in _tensors_in(result):
            if tensor not in self._slots:
                self._add(tensor)
                self._n_bytes += tensor.nbytes
        self._operations.append((function, *read, self._written_down(result)))
        return result

    def replay(self, gradients: Sequence[Tensor], statistics: Tensor, inputs: Sequence[Tensor]) -> Replay | None:
        """What was recorded as one function of a gradient to be written and the inputs, which are examples of these.

        None where it depends on more than their form, and where it would not pay.
        """
        known = all(tensor in self._slots for tensor in (*gradients, statistics))
        n_operations = len(self._operations)
        pays = n_operations <= MOST_OPERATIONS and self._n_bytes <= MOST_BYTES * n_operations
        if self._is_refused or not known or not pays:
            return None
        slots = [self._slots[tensor] for tensor in gradients]
        operations, constants, last = self._operations, self._constants, self._slots[statistics]
        spent = _spent(operations, {*slots, last})

        def run(gradient: Tensor, *tensors: Tensor) -> Tensor:
            values: dict[int, Any] = {**dict(enumerate(tensors)), **constants}
            for (function, args, kwargs, written), read_last in zip(operations, spent, strict=True):
                if function in _SAME_TENSOR:
                    _keep(written, _read(args[0], values), values)
                else:
                    _keep(written, function(*_read(args, values), **_read(kwargs, values)), values)
                for slot in read_last:
                    del values[slot]
            torch.cat([values[slot].reshape(-1) for slot in slots], out=gradient)
            result: Tensor = values[last]
            return result

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # that tracing goes out of use
            try:
                trace: Any = torch.jit.trace
                traced: Replay = trace(run, tuple(inputs), check_trace=False)
            except Exception:  # whatever torch's tracing refuses is trained plainly
                return None
        return None if traced is run else traced  # where the user has switched tracing off

    def _add(self, tensor: Tensor) -> int:
        slot = self._slots[tensor] = self._n_slots
        self._n_slots += 1
        return slot

    def _slot_of(self, tensor: Tensor) -> _Slot:
        slot: int | None = self._slots.get(tensor)
        if slot is None:  # made outside: a constant, unless it is another view of something that changes, or a weight
            memory = {_memory_of(own) for own in self._slots.keys()}  # noqa: SIM118 - no mapping of the standard library
            self._is_refused |= _memory_of(tensor) in memory or isinstance(tensor, nn.Parameter)
            slot = self._add(tensor)
            self._constants[slot] = tensor
        return _Slot(slot)

    def _written_down(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._slot_of(value)
        if isinstance(value, (list, tuple)):
            return [self._written_down(own) for own in value]
        return {name: self._written_down(own) for name, own in value.items()} if isinstance(value, dict) else value

    def _writes_to_input(self, function: Any, args: Sequence[Any]) -> bool:
        arguments = function._schema.arguments
        written = [
            value
            for argument, value in zip(arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        return any(_memory_of(tensor) in self._memory_of_inputs for tensor in _tensors_in(written))


def _memory_of(tensor: Tensor) -> int:
    """Where the numbers of a tensor lie; the same for all views of them."""
    return tensor.untyped_storage().data_ptr() or -id(tensor)


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for own in value for tensor in _tensors_in(own)] if isinstance(value, (list, tuple)) else []


def _read(value: Any, values: dict[int, Tensor]) -> Any:
    """Arguments as they were written down, with the tensors of this run in them."""
    if isinstance(value, _Slot):
        return values[value.index]
    if isinstance(value, list):
        return [_read(own, values) for own in value]
    return {name: _read(own, values) for name, own in value.items()} if isinstance(value, dict) else value


def _spent(operations: Sequence[tuple[Any, Any, Any, Any]], needed: set[int]) -> list[list[int]]:
    """For each operation the slots that nothing reads after it, but for those that are needed in the end."""
    seen, spent = set(needed), []
    for operation in reversed(operations):
        used = {slot.index for slot in _slots_in(operation)}
        spent.append(sorted(used - seen))
        seen |= used
    return spent[::-1]


def _slots_in(value: Any) -> Iterator[_Slot]:
    if isinstance(value, _Slot):
        yield value
    elif isinstance(value, (list, tuple)):
        for own in value:
            yield from _slots_in(own)
    elif isinstance(value, dict):
        yield from _slots_in(list(value.values()))


def _keep(written: Any, result: Any, values: dict[int, Tensor]) -> None:
    if isinstance(written, _Slot):
        values[written.index] = result
    elif isinstance(written, list):
        for own, part in zip(written, result, strict=True):
            _keep(own, part, values)
