"""Decisions of several policy keys, whole and in minibatches: each key's observations apart, other columns joined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActionDistribution
from maze_ppo.batch import Evaluation
from maze_ppo.flat_batch import FlatBatch
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.decision_tensors import ROW_QUANTUM, DecisionTensors
from maze_runtime.training.shares import shares

COLUMNS = ("log_prob", "value", "advantages", "returns", "weight", "base_value")
"""The columns of a `StructuredBatch` that are joined over its policy keys."""


class StructuredBatch(NamedTuple):
    """Decisions of several policy keys; both a `RolloutBatch` and a `Minibatch`.

    Columns (B,) hold one policy key's decisions behind the other's, in the order of `decisions`; keys without any are
    absent. `base_value` is what a delta critic's output is added to, None for other critics. With a weight, minibatches
    are filled up with decisions of weight 0. A tuple, as `FlatBatch` is.
    """

    decisions: dict[PolicyKey, DecisionTensors]
    log_prob: Tensor
    value: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor | None = None
    base_value: Tensor | None = None

    def evaluate(self, model: Any) -> Evaluation:
        """See `Minibatch`."""
        logits, value = logits_and_values(model, self.decisions)
        of_parts = [
            distribution.log_prob_and_entropy(own_logits, action)
            for distribution, own_logits, action in by_distribution(model, logits, self.decisions)
        ]
        log_prob, entropy = (_joined(columns) for columns in zip(*of_parts, strict=True))
        # V(s) = V(s before) + what a delta critic gives
        return Evaluation(log_prob, entropy, value if self.base_value is None else value + self.base_value)

    def mean_weight(self) -> Tensor | None:
        """See `Minibatch`: w_i / Σ_k w, the sum over the decisions of the same policy key k."""
        if self.weight is not None:
            return self._shares(self.weight)
        sizes = self._sizes()
        if min(sizes) == max(sizes):
            return None
        # 1 / B_k
        return torch.cat([self.value.new_full((n,), 1.0 / n) for n in sizes])

    def sum_over_policies(self, mean: Tensor) -> Tensor:
        """See `Minibatch`."""
        # Σ_k mean_k = K · mean over keys, of which those with fillers alone are none
        return mean * (len(self.decisions) if self.weight is None else self._counts(self.weight).sum())

    def with_means_by_key(self, statistics: Tensor, columns: Tensor, policy_keys: tuple[PolicyKey, ...]) -> Tensor:
        """See `Minibatch`."""
        if len(policy_keys) == 1:
            return statistics
        sizes, nan = self._sizes(), float("nan")
        if self.weight is None and tuple(self.decisions) == policy_keys and min(sizes) == max(sizes):
            by_key = columns.reshape(len(columns), len(sizes), -1).mean(2)
            return torch.cat([statistics, *by_key.unbind(1)])
        if self.weight is None:
            of_keys = [own.mean(1) for own in columns.split_with_sizes(sizes, dim=1)]
        else:
            sums = [own.sum(1) for own in (columns * self._shares(self.weight)).split_with_sizes(sizes, dim=1)]
            of_keys = [own.where(is_there, nan) for own, is_there in zip(sums, self._counts(self.weight), strict=True)]
        means = dict(zip(self.decisions, of_keys, strict=True))
        for key in policy_keys:
            if key not in means:
                means[key] = columns.new_full((len(columns),), nan)
        return torch.cat([statistics, *(means[key] for key in policy_keys)])

    def _shares(self, weight: Tensor) -> Tensor:
        """(B,) the share of each decision in the weight of its policy key."""
        return torch.cat([own / own.sum().clamp(min=1.0) for own in weight.split_with_sizes(self._sizes())])

    def _counts(self, weight: Tensor) -> Tensor:
        """(K,) bool, of each policy key here: whether a decision of it counts."""
        return torch.stack([own.any() for own in weight.split_with_sizes(self._sizes())])

    def _sizes(self) -> list[int]:
        """(K,) how many decisions each policy key has here."""
        return [own.n_rows() for own in self.decisions.values()]

    def by_key(self) -> dict[PolicyKey, FlatBatch]:
        """The decisions of each policy key by themselves, not copied."""
        sizes = self._sizes()
        given = (self.log_prob, self.value, self.advantages, self.returns, self.weight)
        columns = [column.split_with_sizes(sizes) for column in given if column is not None]
        return {
            key: FlatBatch(key, own.observation, own.action, *mine)
            for (key, own), mine in zip(self.decisions.items(), zip(*columns, strict=True), strict=True)
        }

    def columns(self) -> dict[str, Tensor]:
        """Every column by `policy key.name`, for a report."""
        return {
            f"{key}.{name}": tensor for key, batch in self.by_key().items() for name, tensor in batch.columns().items()
        }

    @property
    def rows(self) -> StructuredBatch:
        """See `RolloutBatch`."""
        return self

    def whole(self) -> StructuredBatch:
        """All decisions as one minibatch."""
        return self if self.weight is None else next(self._split(1, None))

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[StructuredBatch]:
        """One pass in random order, about `size` decisions at a time, each with its share of every policy key."""
        return self._split(math.ceil(len(self.value) / size), rng)

    def _split(self, n_minibatches: int, rng: np.random.Generator | None) -> Iterator[StructuredBatch]:
        n_rows = tuple(own.n_rows() for own in self.decisions.values())
        layout = _layout(n_rows, n_minibatches, filled=self.weight is not None)
        drawn = [_order(n, rng)[places] for n, places in zip(n_rows, layout.places, strict=True)]
        pieces = [
            own.select(self._index(rows)).split(lengths)
            for own, rows, lengths in zip(self.decisions.values(), drawn, layout.lengths, strict=True)
        ]
        first_rows = itertools.accumulate(n_rows[:-1], initial=0)
        of_all_keys = np.concatenate([rows + first for rows, first in zip(drawn, first_rows, strict=True)])
        names = [name for name in COLUMNS if getattr(self, name) is not None]
        columns = torch.stack([getattr(self, name) for name in names])
        columns = columns.index_select(1, self._index(of_all_keys[layout.joined]))
        if self.weight is not None:
            columns[names.index("weight")] = torch.from_numpy(layout.counts).to(columns)
        keys = tuple(self.decisions)
        for block, of_keys in zip(
            columns.split_with_sizes(layout.sizes, dim=1), zip(*pieces, strict=True), strict=True
        ):
            decisions = {key: own for key, own in zip(keys, of_keys, strict=True) if own.n_rows()}
            yield StructuredBatch(decisions, **dict(zip(names, block.unbind(0), strict=True)))

    def _index(self, rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows).to(self.value.device)


@attrs.frozen
class _Layout:
    """Which decisions each minibatch has, by their places in the random order of their policy key.

    Attributes:
        places: of each key, minibatch by minibatch.
        lengths: of each key, how many every minibatch has.
        sizes: how many every minibatch has of all keys.
        joined: (M,) into the `places` of all keys, one key's behind the other's: minibatch by minibatch, and key by key
            in each.
        counts: (M,) bool, in that order: False for a decision that another minibatch has, too.
    """

    places: list[np.ndarray]
    lengths: list[list[int]]
    sizes: list[int]
    joined: np.ndarray
    counts: np.ndarray


@lru_cache(maxsize=4)  # all passes over a rollout have the same
def _layout(n_rows: tuple[int, ...], n_minibatches: int, *, filled: bool) -> _Layout:
    if filled:
        places = _dealt_out(n_rows, n_minibatches)
        lengths = [[len(own) // n_minibatches] * n_minibatches for own in places]
    else:
        places, lengths = [np.arange(n) for n in n_rows], shares(n_rows, n_minibatches)
    minibatches = np.concatenate([np.repeat(np.arange(n_minibatches), own) for own in lengths])
    joined = np.argsort(minibatches, kind="stable")
    counts = np.concatenate([own < n for own, n in zip(places, n_rows, strict=True)])[joined]
    sizes = [sum(of_keys) for of_keys in zip(*lengths, strict=True)]
    return _Layout([own % n for own, n in zip(places, n_rows, strict=True)], lengths, sizes, joined, counts)


def _dealt_out(n_rows: tuple[int, ...], n_minibatches: int) -> list[np.ndarray]:
    """Places of each key, as many in each minibatch; places behind the key's last one are fillers, and stand last.

    Minibatch i has places i, i + n_minibatches, … of the first key. Another key begins where the one before ended, so
    that the decisions of all keys together are spread evenly, and no minibatch has fillers alone. Of a key with fewer
    decisions than there are minibatches, some have fillers alone.
    """
    places, first = [], 0
    for n in n_rows:
        own = np.arange(n + -n % (ROW_QUANTUM * n_minibatches)).reshape(-1, n_minibatches).T
        places.append(np.roll(own, first, axis=0).reshape(-1))
        first = (first + n) % n_minibatches
    return places


def _order(n_rows: int, rng: np.random.Generator | None) -> np.ndarray:
    return np.arange(n_rows) if rng is None else rng.permutation(n_rows)


def logits_and_values(
    model: Any, decisions: Mapping[PolicyKey, DecisionTensors]
) -> tuple[dict[PolicyKey, TensorDict], Tensor]:
    """Logits by policy key, and values (B,) of all keys' decisions; at once where the model can."""
    observations = {key: own.observation for key, own in decisions.items()}
    agents = {key: own.agent_id for key, own in decisions.items()}
    together = getattr(model, "logits_and_values", None)
    if together is not None:
        return together(observations, agents)  # type: ignore[no-any-return]
    of_keys = {key: model.logits_and_value(key, own, agents[key]) for key, own in observations.items()}
    return {key: logits for key, (logits, _) in of_keys.items()}, torch.cat([value for _, value in of_keys.values()])


def by_distribution(
    model: Any, logits: Mapping[PolicyKey, TensorDict], decisions: Mapping[PolicyKey, DecisionTensors]
) -> list[tuple[ActionDistribution, TensorDict, TensorDict]]:
    """Distributions with the logits and actions (B_k, ...) of their rows, in the order of `decisions`.

    Those of all policy keys at once where one distribution serves them all: it takes no longer for as many rows.
    """
    distributions = [model.distributions[key] for key in decisions]
    own_logits, actions = [logits[key] for key in decisions], [own.action for own in decisions.values()]
    if any(own is not distributions[0] for own in distributions):
        return list(zip(distributions, own_logits, actions, strict=True))
    return [(distributions[0], _joined_by_head(own_logits), _joined_by_head(actions))]


def _joined_by_head(of_keys: Sequence[TensorDict]) -> TensorDict:
    return {head: _joined([own[head] for own in of_keys]) for head in of_keys[0]}


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts))
