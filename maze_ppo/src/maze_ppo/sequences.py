"""Rollouts of recurrent models: valued and trained on as sequences, with the state that each of them starts from.

The networks' states are replayed, not stored at every step: a rollout keeps the state before its first decision, a pass
over its T decisions gives all others, and the last ones start the next rollout. The policy acted with the same
arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.vector import ArrayDict
from maze_ppo.flat_batch import FlatBatch
from maze_ppo.flat_estimator import following_values
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import BEGINS
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.advantages import generalized_advantages
from maze_runtime.rollout.buffer import RolloutBuffer


@attrs.frozen
class SequenceBatch:
    """T decisions of N environments, time-major, and the states (N, S) before the first of them.

    Attributes:
        rows: T·N decisions; `BEGINS` is among the observations.
        states: name to (N, S).
        fixed_size: fill minibatches up with sequences of weight 0, so that compiled code sees one shape.
    """

    rows: FlatBatch
    states: TensorDict
    fixed_size: bool = False

    def columns(self) -> dict[str, Tensor]:
        """Columns by name, for a report."""
        return {**self.rows.columns(), **self.states}

    def whole(self) -> FlatBatch:
        """All sequences as one minibatch."""
        return self.rows._replace(observation={**self.rows.observation, **self.states})

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[FlatBatch]:
        """One pass over whole sequences in random order, each time as many as have `size` decisions, one at least.

        Those of which none counts are left out.
        """
        n_envs = len(next(iter(self.states.values())))
        n_steps = self.rows.n_rows() // n_envs
        n_sequences = max(1, size // n_steps)
        drawn, n_drawn = rng.permutation(n_envs), 0
        if self.fixed_size:
            n_sequences = min(n_sequences, n_envs)
            drawn = np.concatenate([drawn, np.resize(drawn, -n_envs % n_sequences)])
        permutation = torch.from_numpy(drawn).to(self.rows.value.device)
        steps = torch.arange(n_steps, device=self.rows.value.device)
        counts = self._counts(n_envs)[drawn]
        for chosen in torch.split(permutation, n_sequences):
            if not counts[n_drawn : min(n_drawn + len(chosen), n_envs)].any():
                n_drawn += len(chosen)
                continue
            rows = self.rows.select((steps[:, None] * n_envs + chosen).reshape(-1))
            if rows.weight is not None and n_drawn + len(chosen) > n_envs:
                rows.weight.view(n_steps, -1)[:, n_envs - n_drawn :] = 0.0
            n_drawn += len(chosen)
            states = {name: state.index_select(0, chosen) for name, state in self.states.items()}
            yield rows._replace(observation={**rows.observation, **states})

    def _counts(self, n_envs: int) -> np.ndarray:
        """(N,) bool: whether any decision of a sequence counts."""
        weight = self.rows.weight
        return np.ones(n_envs, bool) if weight is None else weight.view(-1, n_envs).any(0).cpu().numpy()


class SequenceEstimator:
    """Values rollouts of recurrent models and carries the states from one rollout to the next.

    Args:
        model: being trained.
        policy_key: the only one of a flat environment.
        device: of the model.
        gamma, gae_lambda: of the advantages.
        fixed_size: see `SequenceBatch`; every decision then has a weight.
    """

    def __init__(
        self,
        model: RecurrentModel,
        policy_key: str,
        device: torch.device,
        *,
        gamma: float,
        gae_lambda: float,
        fixed_size: bool = False,
    ) -> None:
        self._model, self._key, self._device = model, policy_key, device
        self._gamma, self._gae_lambda = gamma, gae_lambda
        self._fixed_size = fixed_size
        self._states: TensorDict = {}

    def begin(self) -> None:
        """Episodes begin in every environment: forget all states."""
        self._states = {}

    def forget(self, env_index: np.ndarray) -> None:
        """Forget the states of these environments (m,)."""
        for state in self._states.values():
            state[torch.from_numpy(env_index).to(state.device)] = 0.0

    def estimate(self, rollout: RolloutBuffer) -> SequenceBatch:
        """Value the rollout that follows the last one, by the present weights."""
        n_steps, n_envs = rollout.n_steps, rollout.n_envs
        states = self._states or self._zeros(n_envs)
        ended = rollout.terminated | rollout.truncated | rollout.void
        begins = np.concatenate([np.zeros((1, n_envs), bool), ended[:-1]])
        observation = {name: self._rows(array) for name, array in rollout.observation.items()}
        observation[BEGINS] = self._rows(begins).float()
        action = {name: self._rows(array) for name, array in rollout.action.items()}
        with torch.no_grad():
            logits, value, after = self._model.advance(self._key, {**observation, **states})
            log_prob = self._model.distributions[self._key].log_prob(logits, action)
        assert value is not None
        advantages = self._rows(self._advantages(rollout, value, after, ended[-1]))
        last = {name: rows.view(n_steps, n_envs, -1)[-1] for name, rows in after.items()}
        going_on = torch.from_numpy(~ended[-1]).to(self._device)[:, None]
        self._states = {name: state * going_on for name, state in last.items()}
        weight = self._rows(~rollout.void).float() if self._fixed_size or rollout.void.any() else None
        # R_t = A_t + V(s_t)
        rows = FlatBatch(self._key, observation, action, log_prob, value, advantages, advantages + value, weight)
        return SequenceBatch(rows, states, self._fixed_size)

    def _advantages(self, rollout: RolloutBuffer, value: Tensor, after: TensorDict, ended: np.ndarray) -> np.ndarray:
        value_array = value.cpu().numpy().reshape(rollout.reward.shape)

        def values_of(observation: ArrayDict, steps: np.ndarray, env_index: np.ndarray) -> np.ndarray:
            # an observation that follows a step is valued from the state after it: a last one before the reset too
            begins = ended[env_index] if observation is rollout.last_observation else np.zeros(len(steps), bool)
            return self._values(observation, after, steps * rollout.n_envs + env_index, begins)

        return generalized_advantages(
            rollout.reward,
            value_array,
            following_values(rollout, value_array, values_of),
            rollout.terminated,
            rollout.terminated | rollout.truncated,
            gamma=self._gamma,
            gae_lambda=self._gae_lambda,
        )

    def _values(self, observation: ArrayDict, after: TensorDict, rows: np.ndarray, begins: np.ndarray) -> np.ndarray:
        index = torch.from_numpy(rows).to(self._device)
        inputs: dict[str, Any] = {name: torch.from_numpy(a).to(self._device) for name, a in observation.items()}
        inputs |= {name: states.index_select(0, index) for name, states in after.items()}
        inputs[BEGINS] = torch.from_numpy(begins).to(self._device).float()
        with torch.no_grad():
            return self._model.value(self._key, inputs).cpu().numpy()

    def _zeros(self, n_envs: int) -> TensorDict:
        shapes = self._model.state_shapes(self._key)
        return {name: torch.zeros(n_envs, *shape, device=self._device) for name, shape in shapes.items()}

    def _rows(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(self._device)
