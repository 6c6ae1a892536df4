"""Tensor operations as they are written down, and what of them need not be run again.

Nearly half of what a gradient step comes down to only looks at a tensor in another way: the transpose of a matrix of
weights, and the transpose of that. Each of them takes about a microsecond and computes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import torch
from torch import Tensor

from maze_runtime.models.wide_products import wide_linear

_TRANSPOSE = torch.ops.aten.t.default
_VIEW = torch.ops.aten.view.default
_SAME_TENSOR = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}
_ELEMENT_BY_ELEMENT = {
    torch.ops.aten.threshold_backward.default: torch.ops.aten.threshold_backward.grad_input,
    torch.ops.aten.tanh_backward.default: torch.ops.aten.tanh_backward.grad_input,
}
"""Gradients of activations by the gradient behind them, and how they are written to a given place."""
_MAKE_NEW = {torch.ops.aten.mm.default, wide_linear, *_ELEMENT_BY_ELEMENT}
"""Operations whose result shares its memory with nothing."""


@attrs.frozen
class Slot:
    """Stands for a tensor in the arguments of a recorded operation."""

    index: int


class Operation(NamedTuple):
    """One operation; where it read or gave tensors there are slots.

    Attributes:
        function: of torch's dispatcher.
        args, kwargs: that it was called with.
        written: what it gave: a slot, or a list of slots.
    """

    function: Any
    args: Any
    kwargs: Any
    written: Any

    def run(self, values: dict[int, Tensor]) -> None:
        """Take the arguments from `values` by slot, and leave the result there."""
        _keep(self.written, self.function(*_read(self.args, values), **_read(self.kwargs, values)), values)

    def read(self) -> set[int]:
        """The slots of its arguments."""
        return {slot.index for slot in _slots_in((self.args, self.kwargs))}

    def gives(self) -> set[int]:
        """The slots of its results."""
        return {slot.index for slot in _slots_in(self.written)}

    def changes(self) -> set[int]:
        """The slots of those of its arguments that it writes to."""
        arguments = self.function._schema.arguments
        named = [*zip((one.name for one in arguments), self.args, strict=False), *self.kwargs.items()]
        written = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
        return {slot.index for name, value in named if name in written for slot in _slots_in(value)}

    def views(self) -> int | None:
        """The slot of its result, if it is its first argument looked at in another way, which moves no number."""
        returns = self.function._schema.returns
        alias = returns[0].alias_info if len(returns) == 1 else None
        of_one = bool(self.args) and isinstance(self.args[0], Slot) and isinstance(self.written, Slot)
        is_view = of_one and alias is not None and not alias.is_write
        return self.written.index if is_view else None


class Operations(NamedTuple):
    """Operations in their order.

    Attributes:
        once: views of tensors that are the same ones at every run, to be taken before the first.
        always: to be run each time.
        spent: for each of these the slots that nothing reads after it.
        gradients, statistics: the slots of the results.
    """

    once: tuple[Operation, ...]
    always: tuple[Operation, ...]
    spent: tuple[tuple[int, ...], ...]
    gradients: tuple[int, ...]
    statistics: int


def simplified(
    operations: Sequence[Operation], gradients: Sequence[int], statistics: int, fixed: Collection[int]
) -> Operations:
    """The operations without views that are known already: those taken twice, and transposes of transposes.

    Gradients of activations are written over the gradient behind them, where nobody else reads that.

    Args:
        operations: as they were recorded.
        gradients, statistics: slots of the results; of a gradient only the numbers in their order count.
        fixed: slots of tensors that are the same ones at every run, whatever is in them.
    """
    kept, stands_for = _without_known_views(operations)
    last = stands_for.get(statistics, statistics)
    sources = {own.written.index: own.args[0].index for own in kept if own.function is _VIEW}
    slots = tuple(_source(stands_for.get(slot, slot), sources) for slot in gradients)
    once, always = _without_unread_views(*_split(kept, set(fixed)), {*slots, last})
    spent = _spent(always, {*slots, last})
    return Operations(once, _in_place(always, spent), spent, slots, last)


def _without_known_views(operations: Sequence[Operation]) -> tuple[list[Operation], dict[int, int]]:
    """What is left of them, with their arguments renamed, and which slot stands for another one's tensor."""
    kept: list[Operation] = []
    stands_for: dict[int, int] = {}
    known: dict[Any, int] = {}
    transposed: dict[int, int] = {}
    # Where one is turned around in its place, whoever reads it later sees something else.
    may_share = not any(torch.Tag.inplace_view in own.function.tags for own in operations)
    for recorded in operations:
        own = recorded._replace(args=_renamed(recorded.args, stands_for), kwargs=_renamed(recorded.kwargs, stands_for))
        written = own.views()
        if written is None:
            kept.append(own)
            continue
        source = own.args[0].index
        seen = source if own.function in _SAME_TENSOR else None
        if may_share and seen is None:
            if own.function is _TRANSPOSE:
                seen = transposed.get(source)
                transposed[written] = source
            if seen is None:
                seen = known.setdefault((own.function, _hashable(own.args), _hashable(own.kwargs)), written)
        if seen is None or seen == written:
            kept.append(own)
        else:
            stands_for[written] = seen
    return kept, stands_for


def _split(operations: Sequence[Operation], fixed: set[int]) -> tuple[list[Operation], list[Operation]]:
    """Views of fixed tensors, and the rest."""
    once: list[Operation] = []
    always: list[Operation] = []
    for own in operations:
        written = own.views()
        if written is not None and own.read() <= fixed:
            fixed.add(written)
            once.append(own)
        else:
            always.append(own)
    return once, always


def _without_unread_views(
    once: Sequence[Operation], always: Sequence[Operation], needed: set[int]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    read, parts = set(needed), []
    for operations in (always, once):
        left = []
        for own in reversed(operations):
            written = own.views()
            if written is None or written in read:
                left.append(own)
                read |= own.read()
        parts.append(tuple(left[::-1]))
    return parts[1], parts[0]


def _spent(operations: Sequence[Operation], needed: set[int]) -> tuple[tuple[int, ...], ...]:
    """For each operation the slots that nothing reads after it, but for those that are needed in the end."""
    seen, spent = set(needed), []
    for own in reversed(operations):
        used = own.read() | own.gives()
        spent.append(tuple(sorted(used - seen)))
        seen |= used
    return tuple(spent[::-1])


def _in_place(operations: Sequence[Operation], spent: Sequence[tuple[int, ...]]) -> tuple[Operation, ...]:
    """Gradients of activations written over the gradient behind them, where that is new and nobody else reads it.

    Memory that was just written is at hand, and new memory is not.
    """
    n_readers = Counter(slot for own in operations for slot in own.read())
    new = {own.written.index for own in operations if own.function in _MAKE_NEW}
    result = []
    for own, read_last in zip(operations, spent, strict=True):
        if own.function in _ELEMENT_BY_ELEMENT:
            place = own.args[0].index
            if place in new and place in read_last and n_readers[place] == 1:
                own = own._replace(function=_ELEMENT_BY_ELEMENT[own.function], kwargs={"grad_input": own.args[0]})
        result.append(own)
    return tuple(result)


def _source(slot: int, sources: Mapping[int, int]) -> int:
    while slot in sources:
        slot = sources[slot]
    return slot


def _renamed(value: Any, stands_for: Mapping[int, int]) -> Any:
    if isinstance(value, Slot):
        return Slot(stands_for.get(value.index, value.index))
    if isinstance(value, (list, tuple)):
        return [_renamed(own, stands_for) for own in value]
    return {name: _renamed(own, stands_for) for name, own in value.items()} if isinstance(value, dict) else value


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(own) for own in value)
    return tuple((name, _hashable(own)) for name, own in value.items()) if isinstance(value, dict) else value


def _read(value: Any, values: Mapping[int, Tensor]) -> Any:
    """Arguments as they were written down, with the tensors of this run in them."""
    if isinstance(value, Slot):
        return values[value.index]
    if isinstance(value, list):
        return [_read(own, values) for own in value]
    return {name: _read(own, values) for name, own in value.items()} if isinstance(value, dict) else value


def _slots_in(value: Any) -> Iterator[Slot]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, (list, tuple)):
        for own in value:
            yield from _slots_in(own)
    elif isinstance(value, dict):
        yield from _slots_in(list(value.values()))


def _keep(written: Any, result: Any, values: dict[int, Tensor]) -> None:
    if isinstance(written, Slot):
        values[written.index] = result
    elif isinstance(written, list):
        for own, part in zip(written, result, strict=True):
            _keep(own, part, values)
