"""Values rollouts of flat environments by feed-forward models: what makes them batches to train on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict
from maze_ppo.flat_batch import FlatBatch
from maze_runtime.models.capabilities import ArrangesObservations, EvaluatesOutsideTorch
from maze_runtime.models.native_evaluation import NativeEvaluation
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.advantages import generalized_advantages
from maze_runtime.rollout.buffer import RolloutBuffer

_NUMBERS_AT_ONCE = 1 << 22
"""Numbers of an observation that go through the networks at once when a rollout is valued."""

_ROWS_AT_ONCE = 2048
"""Decisions that do on the CPU: what a layer of 64 units makes of them stays in the processor's cache."""


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
        """Rollouts are valued one by one: there is nothing to forget."""

    def forget(self, env_index: np.ndarray) -> None:
        """Nor is there anything of single environments."""

    def estimate(self, rollout: RolloutBuffer) -> FlatBatch:
        """Decisions t·N + n on the device, valued by the present weights, once a rollout."""
        model, key = self._model, rollout.policy_key
        native = self._native if torch.get_num_threads() == 1 else None  # it has one
        observation = {name: self._rows(array) for name, array in rollout.observation.items()}
        action = {name: self._rows(array) for name, array in rollout.action.items()}
        with torch.no_grad():
            log_prob, value = self._evaluated(rollout, observation, action, native)
        advantages = self._advantages(rollout, value, native)
        if isinstance(model, ArrangesObservations):
            observation = model.arranged(key, observation)
        # R_t = A_t + V(s_t)
        batch = FlatBatch(key, observation, action, log_prob, value, advantages, advantages + value)
        return self._with_weights(batch, rollout) if self._fixed_size else self._without_voids(batch, rollout)

    def _evaluated(
        self, rollout: RolloutBuffer, observation: TensorDict, action: TensorDict, native: NativeEvaluation | None
    ) -> tuple[Tensor | None, Tensor]:
        """Log-probabilities (B,), where they are needed, and values (B,): those of acting where they were kept."""
        model, key = self._model, rollout.policy_key
        if rollout.value is not None:
            logits = {head: self._rows(array) for head, array in rollout.logits.items()} if self._needs_log_prob else {}
            log_prob = model.distributions[key].log_prob(logits, action) if self._needs_log_prob else None
            return log_prob, self._rows(rollout.value)
        if native is not None:
            return self._evaluated_outside_torch(native, rollout, action)
        if self._needs_log_prob:
            return evaluated_in_parts(model, key, observation, action)
        return None, torch.cat([model.value(key, _cut(observation, rows)) for rows in _parts(observation)])

    def _advantages(self, rollout: RolloutBuffer, value: Tensor, native: NativeEvaluation | None) -> Tensor:
        """(B,) on the device, of values (B,)."""
        value_array = value.cpu().numpy().reshape(rollout.reward.shape)
        advantages = generalized_advantages(
            rollout.reward,
            value_array,
            next_values(rollout, self._model, value_array, self._device)
            if native is None
            else following_values(rollout, value_array, lambda rows, *_: native.values(rows)),
            rollout.terminated,
            rollout.terminated | rollout.truncated,
            gamma=self._gamma,
            gae_lambda=self._gae_lambda,
        )
        return self._rows(advantages)

    def _without_voids(self, batch: FlatBatch, rollout: RolloutBuffer) -> FlatBatch:
        valid = rollout.valid_rows()
        if valid is None:
            return batch
        kept = batch.select(torch.from_numpy(valid).to(self._device))
        return kept._replace(n_left_out=batch.n_rows() - len(valid))

    def _with_weights(self, batch: FlatBatch, rollout: RolloutBuffer) -> FlatBatch:
        """Void decisions behind the others, with weight 0."""
        valid = rollout.valid_rows()
        if valid is None:
            return batch._replace(weight=torch.ones_like(batch.value))
        order = np.concatenate([valid, np.flatnonzero(rollout.void)])
        weighed = batch._replace(weight=self._rows(~rollout.void).float())
        return weighed.select(torch.from_numpy(order).to(self._device))

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
    return model.native_evaluation(model.spaces.policy_keys[0]) if isinstance(model, EvaluatesOutsideTorch) else None


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
