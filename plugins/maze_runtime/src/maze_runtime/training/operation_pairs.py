"""Recorded operations that are run two at a time.

Actor and critic have their own networks, often alike. What they compute does not wait for each other, but one stands
behind the other in a recording; so whatever depends on the first run is put off until the second one has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from maze_runtime.models.two_at_once import of_two
from maze_runtime.training.recorded_operations import Operation, Slot

Forms = Mapping[int, tuple[torch.Size, torch.dtype]]
"""Shapes and types of tensors, by slot."""


def in_pairs(operations: Sequence[Operation], forms: Forms) -> list[Operation]:
    """The same calculation with one operation in the place of two, where `two_at_once` has one for both."""
    if all(of_two(own.function) is None for own in operations):
        return list(operations)
    memory, waiting, done = _Memory(operations), list(operations), list[Operation]()
    while waiting:
        own = waiting.pop(0)
        if of_two(own.function) is not None:
            own, waiting = _with_partner(own, waiting, forms, memory, done)
        done.append(own)
    return done


class _Memory:
    """Which slots are views of the same memory."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._source: dict[int, int] = {}
        for own in operations:
            if any(one.alias_info is not None for one in own.function._schema.returns):
                first, *others = sorted(self.of(own.read() | own.gives()))
                self._source |= dict.fromkeys(others, first)

    def of(self, slots: Iterable[int]) -> set[int]:
        """The slots that were there first, one for each memory."""
        return {self._first(slot) for slot in slots}

    def _first(self, slot: int) -> int:
        while slot in self._source:
            slot = self._source[slot]
        return slot


class _PutOff:
    """Operations that come behind another one, because they have to; that one itself is none of them."""

    def __init__(self, first: Operation, memory: _Memory) -> None:
        self._memory, self.operations = memory, list[Operation]()
        self._given, self._touched, self._changed = set[int](), set[int](), set[int]()
        self._note(first)

    def has_to_follow(self, own: Operation) -> bool:
        """Whether an operation reads what these give, changes what they read, or reads what they change."""
        touched, changed = self._memory.of(own.read()), self._memory.of(own.changes())
        return bool(own.read() & self._given or changed & self._touched or touched & self._changed)

    def append(self, own: Operation) -> None:
        """One more."""
        self.operations.append(own)
        self._note(own)

    def _note(self, own: Operation) -> None:
        self._given |= own.gives()
        self._touched |= self._memory.of(own.read() | own.gives())
        self._changed |= self._memory.of(own.changes())


def _with_partner(
    own: Operation, later: list[Operation], forms: Forms, memory: _Memory, done: list[Operation]
) -> tuple[Operation, list[Operation]]:
    """One operation for this run and a later one that does not wait for it, if there is one, and what comes behind.

    What has to come before both is appended to `done`.
    """
    before, put_off = list[Operation](), _PutOff(own, memory)
    for n, other in enumerate(later):
        if torch.Tag.nondeterministic_seeded in other.function.tags:
            break  # what is drawn is drawn in the same order
        if put_off.has_to_follow(other):
            put_off.append(other)
        elif _are_alike(own, other, forms):
            done += before
            return _both(own, other), [*put_off.operations, *later[n + 1 :]]
        else:
            before.append(other)
    return own, later


def _are_alike(one: Operation, other: Operation, forms: Forms) -> bool:
    def form(operation: Operation) -> list[Any]:
        return [forms[own.index] if isinstance(own, Slot) else own for own in operation.args]

    return one.function is other.function and form(one) == form(other) and not one.kwargs and not other.kwargs


def _both(one: Operation, other: Operation) -> Operation:
    tensors = [[own for own in operation.args if isinstance(own, Slot)] for operation in (one, other)]
    rest = [own for own in one.args if not isinstance(own, Slot)]
    written = [own for operation in (one, other) for own in _listed(operation.written)]
    return Operation(of_two(one.function), [*tensors, *rest], {}, written)


def _listed(written: Any) -> list[Any]:
    return written if isinstance(written, list) else [written]
