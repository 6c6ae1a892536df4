"""Passes over episodes in parts that fit into memory: which episodes, in which order, and what of them is loaded.

What does not fit into memory is streamed in parts of whole episodes, half as large as fits: one is learnt from while
the next may be read. What does fit is the case with one part, read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import attrs
import torch
from torch import Tensor

from maze_bc.data import Demonstrations, Targets
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import Seeds
from maze_runtime.training.shares import shares

Loaded = TypeVar("Loaded")


class Part(NamedTuple):
    """Some episodes and their place in a pass: minibatches `start` to `start + n_batches`."""

    episodes: list[int]
    start: int
    n_batches: int


@attrs.frozen(kw_only=True)
class PassSettings:
    """How passes over episodes are made.

    Attributes:
        targets: what turns recorded actions into those that are learnt.
        batch_size: decisions a minibatch at most, over all policy keys.
        memory_rows: decisions that may be in memory at a time; a single longer episode still is.
        seeds: of the run.
        device: where decisions go.
    """

    targets: Targets
    batch_size: int
    memory_rows: int
    seeds: Seeds
    device: torch.device


class Parts(Generic[Loaded]):
    """The parts of each pass, one of them loaded at a time.

    Args:
        demonstrations: where the episodes come from.
        episodes: which of them.
        settings: of the passes.
        load: what is made of the episodes of a part.

    Attributes:
        n_rows: decisions of a pass.
        is_streamed: whether a pass has several parts.
    """

    def __init__(
        self,
        demonstrations: Demonstrations,
        episodes: Sequence[int],
        settings: PassSettings,
        load: Callable[[Sequence[int]], Loaded],
    ) -> None:
        self._demonstrations = demonstrations
        self._episodes = list(episodes)
        self._load = load
        self._batch_size, self._seeds, self._device = settings.batch_size, settings.seeds, settings.device
        self._lengths = demonstrations.lengths
        self._loaded: tuple[list[int], Loaded] | None = None
        self._shuffled: tuple[tuple[int, int], list[dict[PolicyKey, Tensor]]] | None = None
        self.n_rows = sum(self._lengths[index] for index in self._episodes)
        self.is_streamed = self.n_rows > settings.memory_rows
        self._part_rows = settings.memory_rows // 2 if self.is_streamed else settings.memory_rows
        self._planned: tuple[int, list[Part]] = (-1, self._cut(self._episodes))

    def n_batches(self, pass_index: int) -> int:
        """Minibatches of a pass."""
        last = self.plan(pass_index)[-1]
        return last.start + last.n_batches

    def part(self, pass_index: int, batch_index: int) -> Part:
        """The part that a minibatch belongs to."""
        return next(part for part in self.plan(pass_index) if batch_index < part.start + part.n_batches)

    def loaded(self, pass_index: int, part: Part) -> Loaded:
        """What is in memory of a part of a pass; the part that follows may be read from now on."""
        plan = self.plan(pass_index)
        place = plan.index(part)
        return self._read(part, plan[place + 1 : place + 2])

    def order(self, pass_index: int, part: Part, counts: Mapping[PolicyKey, int]) -> list[dict[PolicyKey, Tensor]]:
        """Which of `counts` things of each policy key go into each minibatch of a part: all of them, once."""
        if self._shuffled is None or self._shuffled[0] != (pass_index, part.start):
            rng = self._seeds.generator("minibatches", pass_index, part.start)
            sizes = shares(list(counts.values()), part.n_batches)
            cuts = {
                key: torch.from_numpy(rng.permutation(count)).to(self._device).split_with_sizes(mine)
                for (key, count), mine in zip(counts.items(), sizes, strict=True)
            }
            chosen = [{key: parts[index] for key, parts in cuts.items()} for index in range(part.n_batches)]
            self._shuffled = (pass_index, part.start), chosen
        return self._shuffled[1]

    def in_order(self) -> Iterator[tuple[Part, Loaded]]:
        """All parts once, as recorded."""
        plan = self._cut(self._episodes) if self.is_streamed else self.plan(0)
        for place, part in enumerate(plan):
            yield part, self._read(part, plan[place + 1 : place + 2])

    def plan(self, pass_index: int) -> list[Part]:
        """The parts of a pass, in the order in which they are learnt from."""
        if self.is_streamed and self._planned[0] != pass_index:
            episodes = self._seeds.generator("episodes", pass_index).permutation(self._episodes).tolist()
            self._planned = pass_index, self._cut(episodes)
        return self._planned[1]

    def _cut(self, episodes: Sequence[int]) -> list[Part]:
        """Consecutive episodes that fit into memory together."""
        groups: list[list[int]] = [[]]
        n_rows = 0
        for index in episodes:
            if groups[-1] and n_rows + self._lengths[index] > self._part_rows:
                groups.append([])
                n_rows = 0
            groups[-1].append(index)
            n_rows += self._lengths[index]
        parts, start = [], 0
        for group in groups:
            n_batches = -(-sum(self._lengths[index] for index in group) // self._batch_size)
            parts.append(Part(group, start, n_batches))
            start += n_batches
        return parts

    def _read(self, part: Part, following: Sequence[Part]) -> Loaded:
        if self._loaded is None or self._loaded[0] is not part.episodes:
            self._loaded = None  # frees the part before the next one is read
            self._loaded = part.episodes, self._load(part.episodes)
            for after in following:
                self._demonstrations.expect(after.episodes)
        return self._loaded[1]
