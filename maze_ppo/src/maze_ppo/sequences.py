"""Rollouts of recurrent models: valued and trained on as sequences, with the state that each of them starts from."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.vector import ArrayDict
from maze_ppo.flat_batch import FlatBatch
from maze_ppo.flat_estimator import following_values
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.advantages import generalized_advantages
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.state_replay import StateReplay, following_value


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
        self._model, self._key = model, policy_key
        self._gamma, self._gae_lambda = gamma, gae_lambda
        self._fixed_size = fixed_size
        self._states = StateReplay(model, policy_key, device)
        self.begin, self.forget = self._states.begin, self._states.forget

    def estimate(self, rollout: RolloutBuffer) -> SequenceBatch:
        """Value the rollout that follows the last one, by the present weights."""
        replay = self._states.replay(rollout)
        value, device = replay.value, replay.value.device

        def rows(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(device)

        action = {name: rows(array) for name, array in rollout.action.items()}
        with torch.no_grad():
            log_prob = self._model.distributions[self._key].log_prob(replay.logits, action)
        advantages = rows(self._advantages(rollout, value, replay.after))
        weight = rows(~rollout.void).float() if self._fixed_size or rollout.void.any() else None
        # R_t = A_t + V(s_t)
        returns = advantages + value
        batch = FlatBatch(self._key, replay.observation, action, log_prob, value, advantages, returns, weight)
        return SequenceBatch(batch, replay.states, self._fixed_size)

    def _advantages(self, rollout: RolloutBuffer, value: Tensor, after: TensorDict) -> np.ndarray:
        value_array = value.cpu().numpy().reshape(rollout.reward.shape)
        ended = (rollout.terminated | rollout.truncated | rollout.void)[-1]

        def values_of(observation: ArrayDict, steps: np.ndarray, env_index: np.ndarray) -> np.ndarray:
            # an observation that follows a step is valued from the state after it: a last one before the reset too
            begins = ended[env_index] if observation is rollout.last_observation else None
            rows = steps * rollout.n_envs + env_index
            return following_value(self._model, self._key, observation, after, rows, begins).cpu().numpy()

        return generalized_advantages(
            rollout.reward,
            value_array,
            following_values(rollout, value_array, values_of),
            rollout.terminated,
            rollout.terminated | rollout.truncated,
            gamma=self._gamma,
            gae_lambda=self._gae_lambda,
        )
