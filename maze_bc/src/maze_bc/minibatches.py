"""Minibatches of demonstrations: shuffled passes whose order follows from the run's seed and the number of the pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from maze_bc.data import Demonstrations, Episode, load
from maze_bc.parts import Parts, PassSettings
from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.tensor_dict import TensorDict


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


def as_tensors(table: Episode, device: torch.device, *, is_flat: bool) -> Batch:
    """Decisions as rows on a device, those of flat environments without agents."""

    def tensors(arrays: Mapping[str, np.ndarray]) -> TensorDict:
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

    return {
        key: Rows(
            tensors(decisions.observation),
            tensors(decisions.action),
            None if is_flat else torch.from_numpy(decisions.agent_id).to(device),
        )
        for key, decisions in table.items()
    }


class Minibatches:
    """Passes over some of the episodes, in minibatches of nearly equal size.

    Args:
        demonstrations: where the episodes come from.
        episodes: which of them.
        settings: of the passes.
        fixed_size: fill every minibatch up with rows of weight 0, so that compiled code sees one shape.

    Attributes:
        demonstrations, episodes: as given.
        n_rows: decisions of a pass.
        is_streamed: whether a pass has several parts.
    """

    def __init__(
        self,
        demonstrations: Demonstrations,
        episodes: Sequence[int],
        settings: PassSettings,
        *,
        fixed_size: bool = False,
    ) -> None:
        self.demonstrations, self.episodes = demonstrations, list(episodes)
        self._settings, self._device = settings, settings.device
        self._fixed_size = fixed_size
        self._weights: dict[tuple[int, int], Tensor] = {}
        self._parts = Parts(demonstrations, self.episodes, settings, self._load)
        self.n_rows, self.is_streamed = self._parts.n_rows, self._parts.is_streamed

    def n_batches(self, pass_index: int) -> int:
        """Minibatches of a pass."""
        return self._parts.n_batches(pass_index)

    def batch(self, pass_index: int, batch_index: int) -> Batch:
        """One minibatch; the same for the same seed, pass and place in it."""
        part = self._parts.part(pass_index, batch_index)
        rows = self._parts.loaded(pass_index, part)
        counts = {key: own.n_rows for key, own in rows.items()}
        chosen = self._parts.order(pass_index, part, counts)[batch_index - part.start]
        if self._fixed_size:
            return {key: self._filled(rows[key], index, part.n_batches) for key, index in chosen.items()}
        return {key: rows[key].select(index) for key, index in chosen.items() if len(index)}

    def in_order(self, n_rows: int) -> Iterator[Batch]:
        """All decisions once, as recorded, at most `n_rows` of a policy key at a time."""
        for _, rows in self._parts.in_order():
            for start in range(0, max(own.n_rows for own in rows.values()), n_rows):
                index = {key: torch.arange(start, min(start + n_rows, own.n_rows)) for key, own in rows.items()}
                yield {key: rows[key].select(chosen.to(self._device)) for key, chosen in index.items() if len(chosen)}

    def state_dict(self, pass_index: int, batch_index: int) -> dict[str, Any]:
        """Nothing: a minibatch follows from seed and place alone."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], pass_index: int, batch_index: int) -> None:
        """Nothing to restore."""

    def _load(self, episodes: Sequence[int]) -> Batch:
        table = load(self.demonstrations, episodes, self._settings.targets)
        return as_tensors(table, self._device, is_flat=self.demonstrations.spaces.is_flat)

    def _filled(self, rows: Rows, index: Tensor, n_batches: int) -> Rows:
        """The rows of `index` and as many of weight 0 as make all minibatches of the policy key equally large."""
        size = self._settings.batch_size if self.is_streamed else -(-rows.n_rows // n_batches)
        n_missing = size - len(index)
        if n_missing:
            index = torch.cat([index, index.new_zeros(n_missing)])
        weight = self._weights.get((size, n_missing))
        if weight is None:
            weight = torch.ones(size, device=self._device)
            weight[size - n_missing :] = 0.0
            self._weights[size, n_missing] = weight
        return rows.select(index)._replace(weight=weight)


class Passes(Protocol):
    """Passes over episodes, in minibatches: `Minibatches`, or `maze_bc.sequences.SequenceMinibatches`."""

    def n_batches(self, pass_index: int) -> int:
        """Minibatches of a pass."""
        ...

    def batch(self, pass_index: int, batch_index: int) -> Batch:
        """One minibatch."""
        ...

    def state_dict(self, pass_index: int, batch_index: int) -> dict[str, Any]:
        """What the minibatches from this one on need beyond seed and place."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], pass_index: int, batch_index: int) -> None:
        """Restore what `state_dict` returned for this minibatch."""
        ...


class Cursor:
    """Where training is in the passes over the data.

    Attributes:
        pass_index: passes begun before this one.
        batch_index: the next minibatch of this one.
    """

    def __init__(self, minibatches: Passes) -> None:
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
        """The place, and what the minibatches from there on need."""
        place = {"pass_index": self.pass_index, "batch_index": self.batch_index}
        return {**place, **self._minibatches.state_dict(**place)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place."""
        self.pass_index, self.batch_index = int(state["pass_index"]), int(state["batch_index"])
        self._minibatches.load_state_dict(state, self.pass_index, self.batch_index)
