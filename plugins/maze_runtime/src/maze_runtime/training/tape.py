"""The tensor operations of a calculation, written down while it runs, and run again as one function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from maze_runtime.training.operation_pairs import in_pairs
from maze_runtime.training.recorded_operations import Operation, Operations, Slot, simplified

Replay = Callable[..., Tensor]
"""`(gradient (P,), *tensors) -> statistics (S,)`; writes to the first one."""

MOST_OPERATIONS = 3000
"""Longer calculations are not recorded."""
MOST_BYTES = 1 << 19
"""Operations whose results are larger than this in the mean take so long that a recording would save nothing."""

_REFUSED = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operations that run while it is entered, and keeps none of their results alive.

    Args:
        fixed: tensors that are the same ones at every run, whatever is in them; in slots 0, 1, …
        inputs: others come in their places at every run; in the slots behind.
        draws: operations may draw random numbers.
    """

    def __init__(self, fixed: Sequence[Tensor], inputs: Sequence[Tensor], *, draws: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refused = _REFUSED if draws else _REFUSED | {torch.Tag.nondeterministic_seeded}
        self._operations: list[Operation] = []
        self._slots: Any = WeakTensorKeyDictionary()
        self._n_slots = self._n_bytes = 0
        self._forms: dict[int, tuple[torch.Size, torch.dtype]] = {}
        self._constants: dict[int, Tensor] = {}
        self._is_refused = False
        for tensor in (*fixed, *inputs):
            self._add(tensor)
        self._memory_of_inputs = {_memory_of(tensor) for tensor in (*fixed, *inputs)}

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
        self._operations.append(Operation(function, *read, self._written_down(result)))
        return result

    def replay(
        self, gradients: Sequence[Tensor], statistics: Tensor, fixed: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> Replay | None:
        """What was recorded as one function of a gradient to be written and the inputs.

        None where it depends on more than their form, and where it would not pay.

        Args:
            gradients, statistics: results of what was recorded.
            fixed: of the tensors that were given at first, without gradients.
            inputs: examples.
        """
        is_whole = all(tensor in self._slots for tensor in (*gradients, statistics))
        n_operations, n_fixed = len(self._operations), len(fixed)
        pays = n_operations <= MOST_OPERATIONS and self._n_bytes <= MOST_BYTES * n_operations
        if self._is_refused or not is_whole or not pays:
            return None
        slots, last = [self._slots[tensor] for tensor in gradients], self._slots[statistics]
        operations = simplified(
            in_pairs(self._operations, self._forms), slots, last, {*range(n_fixed), *self._constants}
        )
        known = _known(operations, self._constants | dict(enumerate(fixed)))
        run = _runner(operations, [*known, *range(n_fixed, n_fixed + len(inputs))])
        gradient = torch.cat([own.reshape(-1) for own in gradients])
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # that tracing goes out of use
            try:
                trace: Any = torch.jit.trace
                traced: Replay = trace(run, (gradient, *known.values(), *inputs), check_trace=False)
            except Exception:  # whatever torch's tracing refuses is trained plainly
                return None
        # Where the user has switched tracing off, it gives back what it got.
        return None if traced is run else partial(_replay, traced, tuple(known.values()))

    def _add(self, tensor: Tensor) -> int:
        slot = self._slots[tensor] = self._n_slots
        self._forms[slot] = tensor.shape, tensor.dtype
        self._n_slots += 1
        return slot

    def _slot_of(self, tensor: Tensor) -> Slot:
        slot: int | None = self._slots.get(tensor)
        if slot is None:  # made outside: a constant, unless it is another view of something that changes, or a weight
            memory = {_memory_of(own) for own in self._slots.keys()}  # noqa: SIM118 - no mapping of the standard library
            self._is_refused |= _memory_of(tensor) in memory or isinstance(tensor, nn.Parameter)
            slot = self._add(tensor)
            self._constants[slot] = tensor
        return Slot(slot)

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


def _known(operations: Operations, fixed: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """The fixed tensors, and the views of them, that are read at every run, by slot.

    They are inputs of what is traced, whose numbers may change, and no constants, with which torch may calculate ahead.
    """
    tensors = dict(fixed)
    for own in operations.once:
        own.run(tensors)
    read = {slot for own in operations.always for slot in own.read()} | {*operations.gradients, operations.statistics}
    return {slot: tensor for slot, tensor in tensors.items() if slot in read}


def _runner(operations: Operations, slots: Sequence[int]) -> Replay:
    """The operations in Python, for torch to trace; `slots` are those of the tensors that it is called with."""

    def run(gradient: Tensor, *tensors: Tensor) -> Tensor:
        values = dict(zip(slots, tensors, strict=True))
        for own, read_last in zip(operations.always, operations.spent, strict=True):
            own.run(values)
            for slot in read_last:
                del values[slot]
        torch.cat([values[slot].reshape(-1) for slot in operations.gradients], out=gradient)
        return values[operations.statistics]

    return run


def _replay(traced: Replay, known: tuple[Tensor, ...], gradient: Tensor, *inputs: Tensor) -> Tensor:
    return traced(gradient, *known, *inputs)


def _memory_of(tensor: Tensor) -> int:
    """Where the numbers of a tensor lie; the same for all views of them."""
    return tensor.untyped_storage().data_ptr() or -id(tensor)


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for own in value for tensor in _tensors_in(own)] if isinstance(value, (list, tuple)) else []
