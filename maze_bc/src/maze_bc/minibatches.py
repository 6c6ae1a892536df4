"""Minibatches of demonstrations: shuffled passes whose order follows from the run's seed and the number of the pass.

What does not fit into memory is streamed in parts of whole episodes, half as large as fits: one is learnt from while
the next may be read. What does fit is the case with one part, read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_bc.data import Demonstrations, Episode, Targets, load
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import Seeds
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.training.shares import shares


class Rows(NamedTuple):
    """B decisions of one policy key.

    Attributes:
        observation: name to (B, ...).
        action: head to (B, ...), what is to be learnt.
        agent_id: (B,) int64; None in flat environments.
        weight: (B,) float32, 0 for rows that only fill up the batch; None: all rows count.
    """

    observation: TensorDict
    action: TensorDict
    agent_id: Tensor | None
    weight: Tensor | None = None

    def select(self, index: Tensor) -> Rows:
        """Some of the rows, copied."""
        observation = {name: column.index_select(0, index) for name, column in self.observation.items()}
        action = {name: column.index_select(0, index) for name, column in self.action.items()}
        return Rows(observation, action, None if self.agent_id is None else self.agent_id.index_select(0, index))

    @property
    def n_rows(self) -> int:
        """B."""
        return len(next(iter(self.action.values())))


Batch = dict[PolicyKey, Rows]
"""The rows of a minibatch, by policy key."""


class Part(NamedTuple):
    """Some episodes and their place in a pass: minibatches `start` to `start + n_batches`."""

    episodes: list[int]
    start: int
    n_batches: int


class Minibatches:
    """Passes over some of the episodes, in minibatches of nearly equal size.

    Args:
        demonstrations: where the episodes come from.
        episodes: which of them.
        targets: what turns recorded actions into those that are learnt.
        batch_size: decisions a minibatch at most, over all policy keys.
        memory_rows: decisions that may be in memory at a time; a single longer episode still is.
        seeds: of the run.
        device: where the rows go.
        fixed_size: fill every minibatch up with rows of weight 0, so that compiled code sees one shape.

    Attributes:
        n_rows: decisions of a pass.
        is_streamed: whether a pass has several parts.
    """

    def __init__(
        self,
        demonstrations: Demonstrations,
        episodes: Sequence[int],
        targets: Targets,
        *,
        batch_size: int,
        memory_rows: int,
        seeds: Seeds,
        device: torch.device,
        fixed_size: bool = False,
    ) -> None:
        self._demonstrations = demonstrations
        self._episodes = list(episodes)
        self._targets = targets
        self._batch_size = batch_size
        self._seeds = seeds
        self._device = device
        self._fixed_size = fixed_size
        self._lengths = demonstrations.lengths
        self._is_flat = demonstrations.spaces.is_flat
        self._loaded: tuple[list[int], Batch] | None = None
        self._shuffled: tuple[tuple[int, int], list[dict[PolicyKey, Tensor]]] | None = None
        self._weights: dict[tuple[int, int], Tensor] = {}
        self.n_rows = sum(self._lengths[index] for index in self._episodes)
        self.is_streamed = self.n_rows > memory_rows
        self._part_rows = memory_rows // 2 if self.is_streamed else memory_rows
        self._planned: tuple[int, list[Part]] = (-1, self._parts(self._episodes))

    def n_batches(self, pass_index: int) -> int:
        """Minibatches of a pass."""
        last = self._plan(pass_index)[-1]
        return last.start + last.n_batches

    def batch(self, pass_index: int, batch_index: int) -> Batch:
        """One minibatch; the same for the same seed, pass and place in it."""
        plan = self._plan(pass_index)
        place = next(i for i, part in enumerate(plan) if batch_index < part.start + part.n_batches)
        part = plan[place]
        rows = self._rows(part.episodes, plan[place + 1 : place + 2])
        chosen = self._order(pass_index, part, rows)[batch_index - part.start]
        if self._fixed_size:
            return {key: self._filled(rows[key], index, part.n_batches) for key, index in chosen.items()}
        return {key: rows[key].select(index) for key, index in chosen.items() if len(index)}

    def in_order(self, n_rows: int) -> Iterator[Batch]:
        """All decisions once, as recorded, at most `n_rows` of a policy key at a time."""
        plan = self._parts(self._episodes) if self.is_streamed else self._plan(0)
        for place, part in enumerate(plan):
            rows = self._rows(part.episodes, plan[place + 1 : place + 2])
            for start in range(0, max(own.n_rows for own in rows.values()), n_rows):
                index = {key: torch.arange(start, min(start + n_rows, own.n_rows)) for key, own in rows.items()}
                yield {key: rows[key].select(chosen.to(self._device)) for key, chosen in index.items() if len(chosen)}

    def _plan(self, pass_index: int) -> list[Part]:
        if self.is_streamed and self._planned[0] != pass_index:
            episodes = self._seeds.generator("episodes", pass_index).permutation(self._episodes).tolist()
            self._planned = pass_index, self._parts(episodes)
        return self._planned[1]

    def _parts(self, episodes: Sequence[int]) -> list[Part]:
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

    def _rows(self, episodes: list[int], following: Sequence[Part] = ()) -> Batch:
        """The decisions of a part's episodes; those of the part that follows may be read from now on."""
        if self._loaded is None or self._loaded[0] is not episodes:
            self._loaded = None  # frees the part before the next one is read
            table = load(self._demonstrations, episodes, self._targets)
            self._loaded = episodes, self._tensors(table)
            for part in following:
                self._demonstrations.expect(part.episodes)
        return self._loaded[1]

    def _tensors(self, table: Episode) -> Batch:
        def tensors(arrays: Mapping[str, np.ndarray]) -> TensorDict:
            return {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}

        return {
            key: Rows(
                tensors(decisions.observation),
                tensors(decisions.action),
                None if self._is_flat else torch.from_numpy(decisions.agent_id).to(self._device),
            )
            for key, decisions in table.items()
        }

    def _order(self, pass_index: int, part: Part, rows: Batch) -> list[dict[PolicyKey, Tensor]]:
        """The rows of each minibatch of a part, by policy key."""
        if self._shuffled is None or self._shuffled[0] != (pass_index, part.start):
            rng = self._seeds.generator("minibatches", pass_index, part.start)
            sizes = shares([own.n_rows for own in rows.values()], part.n_batches)
            cuts = {
                key: torch.from_numpy(rng.permutation(own.n_rows)).to(self._device).split_with_sizes(mine)
                for (key, own), mine in zip(rows.items(), sizes, strict=True)
            }
            chosen = [{key: parts[index] for key, parts in cuts.items()} for index in range(part.n_batches)]
            self._shuffled = (pass_index, part.start), chosen
        return self._shuffled[1]

    def _filled(self, rows: Rows, index: Tensor, n_batches: int) -> Rows:
        """The rows of `index` and as many of weight 0 as make all minibatches of the policy key equally large."""
        size = self._batch_size if self.is_streamed else -(-rows.n_rows // n_batches)
        n_missing = size - len(index)
        if n_missing:
            index = torch.cat([index, index.new_zeros(n_missing)])
        weight = self._weights.get((size, n_missing))
        if weight is None:
            weight = torch.ones(size, device=self._device)
            weight[size - n_missing :] = 0.0
            self._weights[size, n_missing] = weight
        return rows.select(index)._replace(weight=weight)


class Cursor:
    """Where training is in the passes over the data.

    Attributes:
        pass_index: passes begun before this one.
        batch_index: the next minibatch of this one.
    """

    def __init__(self, minibatches: Minibatches) -> None:
        self._minibatches = minibatches
        self.pass_index = 0
        self.batch_index = 0

    def remaining(self) -> int:
        """Minibatches to the end of the pass."""
        return self._minibatches.n_batches(self.pass_index) - self.batch_index

    def take(self) -> Batch:
        """The next minibatch."""
        batch = self._minibatches.batch(self.pass_index, self.batch_index)
        self.batch_index += 1
        if not self.remaining():
            self.pass_index, self.batch_index = self.pass_index + 1, 0
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The place."""
        return {"pass_index": self.pass_index, "batch_index": self.batch_index}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place."""
        self.pass_index, self.batch_index = int(state["pass_index"]), int(state["batch_index"])
