"""Rows to train on: a collected rollout with values, advantages and returns, whole and in minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_kernel.env.tick import ArrayDict
from maze_kernel.models.contract import ActorCritic
from maze_kernel.rollout.advantages import generalized_advantages
from maze_kernel.rollout.buffer import RolloutBuffer

TensorDict = dict[str, Tensor]


class Batch(NamedTuple):
    """Rows of decisions of one policy key: observation and action dicts of (B, ...) and (B,) columns.

    `weight` None counts all rows.

    A NamedTuple, so that torch's function transforms and compiler see through it.
    """

    observation: TensorDict
    action: TensorDict
    log_prob: Tensor
    value: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Apply a function of one tensor to every column."""
        return Batch(
            {name: function(tensor) for name, tensor in self.observation.items()},
            {name: function(tensor) for name, tensor in self.action.items()},
            function(self.log_prob),
            function(self.value),
            function(self.advantages),
            function(self.returns),
            None if self.weight is None else function(self.weight),
        )

    def select(self, index: Tensor) -> Batch:
        """The rows at `index` (M,), copied."""
        return self.map(lambda column: column.index_select(0, index))

    def n_rows(self) -> int:
        """B."""
        return len(self.advantages)

    def whole(self) -> Batch:
        """All rows as one minibatch."""
        return self

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """One pass over all rows; see the function."""
        return minibatches(self, size, rng)

    def columns(self) -> dict[str, Tensor]:
        """Columns by name, for a report."""
        columns = {"log_prob": self.log_prob, "value": self.value, "advantages": self.advantages}
        columns |= {f"observation.{name}": tensor for name, tensor in self.observation.items()}
        return columns | {f"action.{name}": tensor for name, tensor in self.action.items()}


def rollout_batch(
    buffer: RolloutBuffer,
    model: ActorCritic,
    device: torch.device,
    *,
    gamma: float,
    gae_lambda: float,
    fixed_size: bool = False,
) -> Batch:
    """Value a collected rollout and turn it into rows t·N + n on `device`.

    Values and log-probabilities of the acting weights are computed here, once a rollout. Void decisions are
    left out; with `fixed_size` they stay, with weight 0, so that compiled code sees one shape.
    """
    key = buffer.policy_key
    n_rows = buffer.n_steps * buffer.n_envs
    observation = {name: _rows(array, n_rows, device) for name, array in buffer.observation.items()}
    action = {name: _rows(array, n_rows, device) for name, array in buffer.action.items()}
    with torch.no_grad():
        logits, value = model.logits_and_value(key, observation)
        log_prob = model.distributions[key].log_prob(logits, action)
    value_array = value.cpu().numpy().reshape(buffer.reward.shape)
    advantages = generalized_advantages(
        buffer.reward,
        value_array,
        next_values(buffer, model, value_array, device),
        buffer.terminated,
        buffer.terminated | buffer.truncated,
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    advantage_rows = torch.from_numpy(advantages.reshape(-1)).to(device)
    batch = Batch(observation, action, log_prob, value, advantage_rows, advantage_rows + value)
    if fixed_size:
        return batch._replace(weight=torch.from_numpy(~buffer.void.reshape(-1)).to(device, torch.float32))
    valid = buffer.valid_rows()
    return batch if valid is None else batch.select(torch.from_numpy(valid).to(device))


def minibatches(batch: Batch, size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """One pass over the rows of `batch` in random order, `size` rows at a time.

    The last minibatch may be smaller. A batch with weights is filled up with rows of weight 0 instead.
    """
    n_rows = batch.n_rows()
    permutation = rng.permutation(n_rows)
    if batch.weight is not None:
        permutation = np.concatenate([permutation, np.resize(permutation, -n_rows % size)])
    shuffled = batch.select(torch.from_numpy(permutation).to(batch.value.device))
    if shuffled.weight is not None:
        shuffled.weight[n_rows:] = 0.0
    for start in range(0, len(permutation), size):
        yield shuffled.map(lambda column, start=start: column[start : start + size])  # type: ignore[misc]


def next_values(buffer: RolloutBuffer, model: ActorCritic, value: np.ndarray, device: torch.device) -> np.ndarray:
    """`following_values` of a feed-forward model, which values an observation by itself."""
    return following_values(buffer, value, lambda rows, _steps, _envs: _values(model, buffer.policy_key, rows, device))


ValuesOf = Callable[[ArrayDict, np.ndarray, np.ndarray], np.ndarray]
"""Observations (m, ...), the steps after which they were made and the environments that made them, to values (m,)."""


def following_values(buffer: RolloutBuffer, value: np.ndarray, values_of: ValuesOf) -> np.ndarray:
    """(T, N) values of what followed each decision.

    That is the next observation; the final observation where the episode was truncated; the observation after
    the rollout in the last row. Rows of terminated episodes hold a number that must not be used.
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


def _rows(array: np.ndarray, n_rows: int, device: torch.device) -> Tensor:
    return torch.from_numpy(array.reshape(n_rows, *array.shape[2:])).to(device)
