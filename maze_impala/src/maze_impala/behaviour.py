"""What actors say of how they made a rollout: log-probabilities of their actions, with the weights they acted with.

Actors of a model that carries state say the states before its first step, too: those of the policy as they acted, those
of the critic as it would have had them.
"""

from __future__ import annotations

import numpy as np
import torch

from maze_impala.batch import LOG_PROB
from maze_impala.sent_states import send, state_columns
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.models.recurrence import ActingStates
from maze_runtime.rollout.actor_replay import ActorReplay
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.decision_tensors import decision_tensors
from maze_runtime.rollout.state_replay import StateReplay
from maze_runtime.rollout.structured_buffer import StructuredBuffer

_CPU = torch.device("cpu")


def log_probabilities(buffer: RolloutBuffer | StructuredBuffer, model: ActorCritic) -> np.ndarray:
    """(T, N) log mu(a|x), one forward pass a policy key; 0 for decisions of structured environments that are void."""
    with torch.inference_mode(), evaluation_mode(model.modules()):  # type: ignore[attr-defined]
        if isinstance(buffer, StructuredBuffer):
            return _of_structured(buffer, model)
        key = buffer.policy_key
        observation, action = (
            {name: torch.from_numpy(array.reshape(-1, *array.shape[2:])) for name, array in arrays.items()}
            for arrays in (buffer.observation, buffer.action)
        )
        log_prob = model.distributions[key].log_prob(model.logits(key, observation), action)
    return log_prob.numpy().reshape(buffer.reward.shape)


class RecurrentBehaviour:
    """The same of a model that carries state from step to step, in flat environments; see `StructuredBehaviour`.

    Args:
        model: on the CPU.
    """

    def __init__(self, model: RecurrentModel) -> None:
        self._model = model
        self._key = model.spaces.policy_keys[0]
        self._states = StateReplay(model, self._key, _CPU)
        self.begin = self._states.begin

    def columns(self, buffer: RolloutBuffer) -> ArrayDict:
        """Log mu(a|x) (T, N) as `LOG_PROB`, and the states (N, S) before the first step of the rollout."""
        with torch.no_grad(), evaluation_mode(self._model.modules()):  # type: ignore[attr-defined]
            replay = self._states.replay(buffer)
            action = {name: torch.from_numpy(a.reshape(-1, *a.shape[2:])) for name, a in buffer.action.items()}
            log_prob = self._model.distributions[self._key].log_prob(replay.logits, action)
        states = {name: state.numpy() for name, state in replay.states.items()}
        return {LOG_PROB: log_prob.numpy().reshape(buffer.reward.shape), **states}


class StructuredBehaviour:
    """The same in structured environments, where every actor has states of its own.

    Args:
        model: on the CPU.
        n_steps, n_envs: of the rollouts.
    """

    def __init__(self, model: RecurrentModel, n_steps: int, n_envs: int) -> None:
        self._model = model
        self._columns = state_columns(model, n_steps, n_envs)
        self.begin()

    def begin(self) -> None:
        """Episodes begin in every environment: forget all states."""
        self._states = {key: ActingStates(self._model.state_shapes(key)) for key in self._model.spaces.policy_keys}

    def replay(self, buffer: StructuredBuffer) -> ActorReplay:
        """The rollout that follows the last one."""
        with torch.no_grad(), evaluation_mode(self._model.modules()):  # type: ignore[attr-defined]
            return ActorReplay(self._model, _CPU, buffer, self._states)

    def columns(self, buffer: StructuredBuffer, replay: ActorReplay) -> ArrayDict:
        """Log mu(a|x) (T, N) as `LOG_PROB`, and the columns of `sent_states`; states go on behind the rollout."""
        send(self._columns, buffer, self._states)
        replay.carry(self._states)
        return {LOG_PROB: replay.by_step(replay.log_prob), **self._columns}


def _of_structured(buffer: StructuredBuffer, model: ActorCritic) -> np.ndarray:
    log_prob = np.zeros(buffer.reward.shape, np.float32)
    for key in buffer.policy_keys:
        own = buffer.decisions(key)
        if len(own):
            decisions = decision_tensors(buffer, key, own, _CPU)
            logits = model.logits(key, decisions.observation, decisions.agent_id)
            log_prob[own.step, own.env_index] = model.distributions[key].log_prob(logits, decisions.action).numpy()
    return log_prob
