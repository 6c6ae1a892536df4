"""Rows of several policy keys, whole and in minibatches: what each key's networks read apart, other columns joined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_ppo.batch import Batch, TensorDict

_ROW_QUANTUM = 16
"""Compiled code sees a multiple of so many rows a policy key, so that few shapes occur."""

_COLUMNS = ("log_prob", "value", "advantages", "returns", "weight", "base_value")


class Decided(NamedTuple):
    """Decisions of one policy key, (B_k, ...) columns: what they were made on, what they were, and by which agent."""

    observation: TensorDict
    action: TensorDict
    agent_id: Tensor

    def n_rows(self) -> int:
        """B_k."""
        return len(self.agent_id)

    def select(self, index: Tensor) -> Decided:
        """The rows at `index` (M,), copied."""
        return Decided(
            {name: tensor.index_select(0, index) for name, tensor in self.observation.items()},
            {name: tensor.index_select(0, index) for name, tensor in self.action.items()},
            self.agent_id.index_select(0, index),
        )

    def split(self, sizes: Sequence[int]) -> list[Decided]:
        """Neighbouring rows, so many in each part; not copied."""
        observation = {name: tensor.split(sizes) for name, tensor in self.observation.items()}
        action = {name: tensor.split(sizes) for name, tensor in self.action.items()}
        return [
            Decided(
                {name: parts[i] for name, parts in observation.items()},
                {name: parts[i] for name, parts in action.items()},
                agent_id,
            )
            for i, agent_id in enumerate(self.agent_id.split(sizes))
        ]


class KeyedBatch(NamedTuple):
    """Rows of decisions. Columns (B,) hold one policy key's rows behind the other's, in the order of `decided`.

    Keys without rows are absent. `base_value` is what a delta critic's output is added to, None for other critics.
    With a weight, minibatches are filled up with rows of weight 0. A tuple, as `Batch` is.
    """

    decided: dict[str, Decided]
    log_prob: Tensor
    value: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor | None = None
    base_value: Tensor | None = None

    def by_key(self) -> dict[str, Batch]:
        """The rows of each policy key by themselves, not copied."""
        sizes = [own.n_rows() for own in self.decided.values()]
        given = (self.log_prob, self.value, self.advantages, self.returns, self.weight)
        columns = [column.split(sizes) for column in given if column is not None]
        return {
            key: Batch(own.observation, own.action, *mine)
            for (key, own), mine in zip(self.decided.items(), zip(*columns, strict=True), strict=True)
        }

    def columns(self) -> dict[str, Tensor]:
        """Every column by `policy key.name`, for a report."""
        return {
            f"{key}.{name}": tensor for key, batch in self.by_key().items() for name, tensor in batch.columns().items()
        }

    def whole(self) -> KeyedBatch:
        """All rows as one minibatch."""
        return self if self.weight is None else next(self._parts(1, None))

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[KeyedBatch]:
        """One pass over all rows in random order, about `size` a time, each with its share of every policy key."""
        return self._parts(math.ceil(len(self.value) / size), rng)

    def _parts(self, n_parts: int, rng: np.random.Generator | None) -> Iterator[KeyedBatch]:
        n_rows = [own.n_rows() for own in self.decided.values()]
        draws = [_draw(n, n_parts, rng, fill=self.weight is not None) for n in n_rows]
        decided = {
            key: own.select(self._index(drawn)).split([len(rows) for rows in drawn])
            for (key, own), drawn in zip(self.decided.items(), draws, strict=True)
        }
        offsets = np.cumsum([0, *n_rows[:-1]])
        joined = [
            np.concatenate([rows + offset for rows, offset in zip(part, offsets, strict=True)])
            for part in zip(*draws, strict=True)
        ]
        names = [name for name in _COLUMNS if getattr(self, name) is not None]
        columns = torch.stack([getattr(self, name) for name in names]).index_select(1, self._index(joined))
        if self.weight is not None:
            columns[names.index("weight")] = torch.from_numpy(_is_drawn_once(draws, n_rows)).to(columns)
        for part, block in enumerate(columns.split([len(rows) for rows in joined], dim=1)):
            own = {key: parts[part] for key, parts in decided.items() if parts[part].n_rows()}
            yield self._replace(decided=own, **dict(zip(names, block.unbind(0), strict=True)))

    def _index(self, rows: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(rows)).to(self.value.device)


def _draw(n_rows: int, n_parts: int, rng: np.random.Generator | None, *, fill: bool) -> list[np.ndarray]:
    """The rows of each part, in random order or in their own; `fill`: with rows that another part has, too."""
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    if not fill:
        return [order[n_rows * part // n_parts : n_rows * (part + 1) // n_parts] for part in range(n_parts)]
    order = np.concatenate([order, np.resize(order, -n_rows % (_ROW_QUANTUM * n_parts))])
    # Part i takes rows i, i + n_parts, …: so all parts have as many fillers, and these stand last.
    return [order[part::n_parts] for part in range(n_parts)]


def _is_drawn_once(draws: Sequence[Sequence[np.ndarray]], n_rows: Sequence[int]) -> np.ndarray:
    """False for the fillers of filled parts, part by part and in each of them key by key."""
    n_parts = len(draws[0])
    return np.concatenate(
        [
            np.arange(len(drawn[part])) < len(range(part, n, n_parts))
            for part in range(n_parts)
            for drawn, n in zip(draws, n_rows, strict=True)
        ]
    )
