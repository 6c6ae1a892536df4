"""What is trained on: a collected rollout with values, advantages and returns, whole and in minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import ArrangesObservations, EvaluatesOutsideTorch
from maze_runtime.models.image_layout import select_rows
from maze_runtime.models.native_evaluation import NativeEvaluation
from maze_runtime.rollout.advantages import generalized_advantages
from maze_runtime.rollout.buffer import RolloutBuffer

TensorDict = dict[str, Tensor]

_NUMBERS_AT_ONCE = 1 << 22
"""Numbers of an observation that go through the networks at once when a rollout is valued."""

_ROWS_AT_ONCE = 2048
"""Decisions that do on the CPU: what a layer of 64 units makes of them stays in the processor's cache."""

MOST_FILLED_ROWS = 8192
"""Minibatches of more rows are not filled up: no gradient is recorded for as much data."""

KEY_STATISTICS = ("policy_loss", "value_loss", "entropy")
"""What gradient steps report of each policy key where there are several."""


class Evaluation(NamedTuple):
    """What the current weights make of B decisions, (B,) each, with gradients."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class Minibatch(Protocol):
    """B decisions to take a gradient step on: of one policy key, or of several."""

    @property
    def log_prob(self) -> Tensor | None:
        """(B,) log pi_old(a|s), of the weights that acted; None where the algorithm does not need it."""
        ...

    @property
    def value(self) -> Tensor:
        """(B,) V_old(s), of the same weights."""
        ...

    @property
    def advantages(self) -> Tensor:
        """(B,)."""
        ...

    @property
    def returns(self) -> Tensor:
        """(B,) targets of the critic."""
        ...

    @property
    def weight(self) -> Tensor | None:
        """(B,) 1 for decisions and 0 for fillers; None where there are no fillers."""
        ...

    def evaluate(self, model: Any) -> Evaluation:
        """What the current weights of the model make of the same decisions."""
        ...

    def mean_weight(self) -> Tensor | None:
        """(B,) what each decision counts in a mean, so that every policy key counts alike; None: all the same."""
        ...

    def sum_over_policies(self, mean: Tensor) -> Tensor:
        """The sum over policy keys of what `mean` () is the mean of."""
        ...

    def with_means_by_key(self, statistics: Tensor, columns: Tensor, policy_keys: tuple[PolicyKey, ...]) -> Tensor:
        """`statistics` (S,), and behind them the means of columns (C, B) over each of several policy keys.

        (S + K C,), key by key in the order of `policy_keys`; NaN for a key without a decision here. With
        one policy key nothing is added.
        """
        ...


class RolloutBatch(Protocol):
    """A whole rollout, valued by the weights that made it."""

    @property
    def rows(self) -> Minibatch:
        """Every decision of it, valued, and fillers of weight 0."""
        ...

    def whole(self) -> Minibatch:
        """Everything as one minibatch."""
        ...

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Minibatch]:
        """One pass over everything in random order, about `size` decisions at a time."""
        ...

    def columns(self) -> dict[str, Tensor]:
        """Columns by name, for a report."""
        ...


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


class FlatEstimator:
    """Values rollouts of flat environments with feed-forward models; keeps nothing from one to the next.

    Args:
        model: being trained.
        device: of the model.
        gamma, gae_lambda: of the advantages.
        fixed_size: keep void decisions, behind the others and with weight 0, so that compiled code sees one shape; else
            they are left out.
        needs_log_prob: of the actions by the present weights; else the policy is not asked.
    """

    def __init__(
        self,
        model: ActorCritic,
        device: torch.device,
        *,
        gamma: float,
        gae_lambda: float,
        fixed_size: bool = False,
        needs_log_prob: bool = True,
    ) -> None:
        self._model, self._device = model, device
        self._needs_log_prob = needs_log_prob
        self._gamma, self._gae_lambda = gamma, gae_lambda
        self._fixed_size = fixed_size
        self._native = _native_evaluation(model) if fixed_size else None

    def begin(self) -> None:
        """Nothing to forget."""

    def forget(self, env_index: np.ndarray) -> None:
        """Nothing either."""

    def estimate(self, rollout: RolloutBuffer) -> FlatBatch:
        """Decisions t·N + n on the device, valued by the present weights, once a rollout."""
        model, key = self._model, rollout.policy_key
        native = self._native if torch.get_num_threads() == 1 else None  # it has one
        observation = {name: self._rows(array) for name, array in rollout.observation.items()}
        action = {name: self._rows(array) for name, array in rollout.action.items()}
        with torch.no_grad():
            log_prob = None
            if rollout.value is not None:
                value = self._rows(rollout.value)
                if self._needs_log_prob:
                    logits = {head: self._rows(array) for head, array in rollout.logits.items()}
                    log_prob = model.distributions[key].log_prob(logits, action)
            elif native is not None:
                log_prob, value = self._evaluated_outside_torch(native, rollout, action)
            elif self._needs_log_prob:
                log_prob, value = evaluated_in_parts(model, key, observation, action)
            else:
                value = torch.cat([model.value(key, _cut(observation, rows)) for rows in _parts(observation)])
        value_array = value.cpu().numpy().reshape(rollout.reward.shape)
        advantages = self._rows(
            generalized_advantages(
                rollout.reward,
                value_array,
                next_values(rollout, model, value_array, self._device)
                if native is None
                else following_values(rollout, value_array, lambda rows, *_: native.values(rows)),
                rollout.terminated,
                rollout.terminated | rollout.truncated,
                gamma=self._gamma,
                gae_lambda=self._gae_lambda,
            )
        )
        if isinstance(model, ArrangesObservations):
            observation = model.arranged(key, observation)
        # R_t = A_t + V(s_t)
        batch = FlatBatch(key, observation, action, log_prob, value, advantages, advantages + value)
        valid = rollout.valid_rows()
        if not self._fixed_size:
            if valid is None:
                return batch
            kept = batch.select(torch.from_numpy(valid).to(self._device))
            return kept._replace(n_left_out=len(value) - len(valid))
        if valid is None:
            return batch._replace(weight=torch.ones_like(value))
        weight = self._rows(~rollout.void).float()
        order = np.concatenate([valid, np.flatnonzero(rollout.void)])
        return batch._replace(weight=weight).select(torch.from_numpy(order).to(self._device))

    def _evaluated_outside_torch(
        self, native: NativeEvaluation, rollout: RolloutBuffer, action: TensorDict
    ) -> tuple[Tensor | None, Tensor]:
        observation = {name: array.reshape(-1, *array.shape[2:]) for name, array in rollout.observation.items()}
        if not self._needs_log_prob:
            return None, torch.from_numpy(native.values(observation))
        logits, value = native.logits_and_values(observation)
        tensors = {head: torch.from_numpy(array) for head, array in logits.items()}
        log_prob = self._model.distributions[rollout.policy_key].log_prob(tensors, action)
        return log_prob, torch.from_numpy(value)

    def _rows(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(self._device)


def _native_evaluation(model: ActorCritic) -> NativeEvaluation | None:
    offers = isinstance(model, EvaluatesOutsideTorch)
    return model.native_evaluation(model.spaces.policy_keys[0]) if offers else None


def evaluated_in_parts(
    model: ActorCritic, key: PolicyKey, observation: TensorDict, action: TensorDict
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and values of B decisions, (B,) each.

    Large observations and long rollouts go through the networks a part at a time: what images leave in memory on the
    way through the convolutions, or many decisions behind every layer, would be the peak of a training run.
    """
    log_probs, values = [], []
    for rows in _parts(observation):
        logits, value = model.logits_and_value(key, _cut(observation, rows))
        log_probs.append(model.distributions[key].log_prob(logits, _cut(action, rows)))
        values.append(value)
    return torch.cat(log_probs), torch.cat(values)


def _parts(observation: TensorDict) -> list[slice]:
    first, numbers_a_row = next(iter(observation.values())), sum(own[0].numel() for own in observation.values())
    n_rows = len(first)
    most = _ROWS_AT_ONCE if first.device.type == "cpu" else n_rows
    size = max(1, min(most, _NUMBERS_AT_ONCE // max(1, numbers_a_row)))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def _cut(tensors: TensorDict, rows: slice) -> TensorDict:
    return {name: tensor[rows] for name, tensor in tensors.items()}


def minibatches(batch: FlatBatch, size: int, rng: np.random.Generator) -> Iterator[FlatBatch]:
    """One pass over the decisions of `batch` in random order, `size` at a time.

    The last minibatch may be smaller. With weights it is filled up with decisions of weight 0 instead. Those that have
    weight 0 in `batch`, which stand last there, are in no minibatch but as such fillers: every minibatch counts the
    decisions that it would count without weights. Where only some void decisions are missing in the last one, they are
    made up for in the same way: minibatches of one size are what a gradient is recorded for.
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
    """How many decisions that were left out the last minibatch would have; 0 where more than a quarter is missing."""
    if size > MOST_FILLED_ROWS:
        return 0
    n_last = n_rows % size or size
    n_full = (n_rows + n_left_out) % size or size
    return n_left_out if n_last + n_left_out == n_full and 4 * n_left_out <= n_full else 0


def next_values(buffer: RolloutBuffer, model: ActorCritic, value: np.ndarray, device: torch.device) -> np.ndarray:
    """`following_values` of a feed-forward model, which values an observation by itself."""
    return following_values(buffer, value, lambda rows, _steps, _envs: _values(model, buffer.policy_key, rows, device))


ValuesOf = Callable[[ArrayDict, np.ndarray, np.ndarray], np.ndarray]
"""Observations (m, ...), the steps after which they were made and the environments that made them, to values (m,)."""


def following_values(buffer: RolloutBuffer, value: np.ndarray, values_of: ValuesOf) -> np.ndarray:
    """(T, N) values of what followed each decision.

    That is the next observation; the final observation where the episode was truncated; the observation after
    the rollout behind the last one. Where the episode terminated it is a number that must not be used.
    """
    following = np.empty_like(value)
    following[:-1] = value[1:]
    last_step = np.full(buffer.n_envs, buffer.n_steps - 1)
    following[-1] = values_of(buffer.last_observation, last_step, np.arange(buffer.n_envs))
    if buffer.truncations:
        names = buffer.last_observation
        final = {name: np.concatenate([rows[name] for _, _, rows in buffer.truncations]) for name in names}
        steps = np.concatenate([np.full(len(index), step) for step, index, _ in buffer.truncations])
        env_index = np.concatenate([index for _, index, _ in buffer.truncations])
        following[steps, env_index] = values_of(final, steps, env_index)
    return following


def _values(model: ActorCritic, key: str, observation: dict[str, np.ndarray], device: torch.device) -> np.ndarray:
    with torch.no_grad():
        tensors = {name: torch.from_numpy(array).to(device) for name, array in observation.items()}
        return model.value(key, tensors).cpu().numpy()
