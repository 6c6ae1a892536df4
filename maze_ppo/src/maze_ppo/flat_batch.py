"""Decisions of one policy key, whole and in minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_ppo.batch import Evaluation
from maze_runtime.models.image_layout import select_rows
from maze_runtime.models.tensor_dict import TensorDict

MOST_FILLED_ROWS = 8192
"""Minibatches of more rows are not filled up: no gradient is recorded for as much data."""


class FlatBatch(NamedTuple):
    """Decisions of one policy key: observation and action dicts of (B, ...) and (B,) columns.

    Both a `RolloutBatch` and a `Minibatch`. A NamedTuple, so that torch's function transforms and compiler see through
    it. `n_left_out` void decisions are missing in a rollout.
    """

    policy_key: PolicyKey
    observation: TensorDict
    action: TensorDict
    log_prob: Tensor | None
    value: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor | None = None
    n_left_out: int = 0

    def evaluate(self, model: Any) -> Evaluation:
        """See `Minibatch`."""
        logits, value = model.logits_and_value(self.policy_key, self.observation)
        log_prob, entropy = model.distributions[self.policy_key].log_prob_and_entropy(logits, self.action)
        return Evaluation(log_prob, entropy, value)

    def mean_weight(self) -> Tensor | None:
        """See `Minibatch`."""
        return self.weight

    def sum_over_policies(self, mean: Tensor) -> Tensor:
        """See `Minibatch`: there is one."""
        return mean

    def with_means_by_key(self, statistics: Tensor, columns: Tensor, policy_keys: tuple[PolicyKey, ...]) -> Tensor:
        """See `Minibatch`: there is one key."""
        return statistics

    def map(self, function: Callable[[Tensor], Tensor]) -> FlatBatch:
        """Apply a function of one tensor to every column."""
        return FlatBatch(
            self.policy_key,
            {name: function(tensor) for name, tensor in self.observation.items()},
            {name: function(tensor) for name, tensor in self.action.items()},
            None if self.log_prob is None else function(self.log_prob),
            function(self.value),
            function(self.advantages),
            function(self.returns),
            None if self.weight is None else function(self.weight),
        )

    def select(self, index: Tensor) -> FlatBatch:
        """The decisions at `index` (M,), copied."""
        return self.map(lambda column: select_rows(column, index))

    def n_rows(self) -> int:
        """B."""
        return len(self.advantages)

    @property
    def rows(self) -> FlatBatch:
        """See `RolloutBatch`."""
        return self

    def whole(self) -> FlatBatch:
        """All decisions as one minibatch."""
        return self

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[FlatBatch]:
        """One pass over all decisions; see the function."""
        return minibatches(self, size, rng)

    def columns(self) -> dict[str, Tensor]:
        """Columns by name, for a report."""
        columns = {"value": self.value, "advantages": self.advantages}
        columns |= {} if self.log_prob is None else {"log_prob": self.log_prob}
        columns |= {f"observation.{name}": tensor for name, tensor in self.observation.items()}
        return columns | {f"action.{name}": tensor for name, tensor in self.action.items()}


def minibatches(batch: FlatBatch, size: int, rng: np.random.Generator) -> Iterator[FlatBatch]:
    """One pass over the decisions of `batch` in random order, `size` at a time.

    The last minibatch may be smaller. With weights it is filled up with decisions of weight 0 instead. Those that have
    weight 0 in `batch`, which stand last there, are in no minibatch but as such fillers: every minibatch counts the
    decisions that it would count without weights. Where only some void decisions are missing in the last one, they are
    made up for in the same way: minibatches of one size are what a gradient is recorded for. So is a second decision
    where one is left over, which a layer that normalises by its batch refuses.
    """
    n_rows = batch.n_rows() if batch.weight is None else int(batch.weight.count_nonzero())
    n_fillers = -n_rows % size if batch.weight is not None else _n_missing_in_last(n_rows, batch.n_left_out, size)
    permutation = rng.permutation(n_rows)
    permutation = np.concatenate([permutation, np.resize(permutation, n_fillers)])
    shuffled = batch.select(torch.from_numpy(permutation).to(batch.value.device))
    if shuffled.weight is not None:
        shuffled.weight[n_rows:] = 0.0
    for start in range(0, len(permutation), size):
        minibatch = shuffled.map(lambda column, start=start: column[start : start + size])  # type: ignore[misc]
        if minibatch.weight is None and start + size >= len(permutation) and n_fillers:
            weight = torch.ones_like(minibatch.value)
            weight[len(weight) - n_fillers :] = 0.0
            minibatch = minibatch._replace(weight=weight)
        yield minibatch


def _n_missing_in_last(n_rows: int, n_left_out: int, size: int) -> int:
    """How many decisions that were left out the last minibatch would have; where more than a quarter is missing, 0.

    But one where a single one is left over.
    """
    n_last = n_rows % size or size
    n_full = (n_rows + n_left_out) % size or size
    if size <= MOST_FILLED_ROWS and n_last + n_left_out == n_full and 0 < 4 * n_left_out <= n_full:
        return n_left_out
    return 1 if n_last == 1 < min(size, n_rows) else 0
