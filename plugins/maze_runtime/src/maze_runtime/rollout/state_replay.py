"""The states of recurrent models, from one rollout of flat environments to the next.

They are replayed, not stored at every step: a rollout keeps the state before its first decision, a pass over its T
decisions gives all others, and the last ones start the next rollout. The policy acted with the same arithmetic.
"""

from __future__ import annotations

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import BEGINS
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.buffer import RolloutBuffer


@attrs.frozen
class ReplayedRollout:
    """What a pass over a rollout gives; rows are T steps of N environments, time-major.

    Attributes:
        observation: (T·N, …) by name, `BEGINS` among them.
        states: (N, S) by name, before the first step.
        logits: (T·N, L) by head.
        value: (T·N,).
        after: states (T·N, S) after each row.
    """

    observation: TensorDict
    states: TensorDict
    logits: TensorDict
    value: Tensor
    after: TensorDict


class StateReplay:
    """Goes over one rollout after the other.

    Args:
        model: evaluated with its present weights.
        policy_key: the only one of a flat environment.
        device: of the model.
    """

    def __init__(self, model: RecurrentModel, policy_key: PolicyKey, device: torch.device) -> None:
        self._model, self._key, self._device = model, policy_key, device
        self._states: TensorDict = {}

    def begin(self) -> None:
        """Episodes begin in every environment: forget all states."""
        self._states = {}

    def forget(self, env_index: np.ndarray) -> None:
        """Forget the states of these environments (m,)."""
        for state in self._states.values():
            state[torch.from_numpy(env_index).to(state.device)] = 0.0

    def replay(self, rollout: RolloutBuffer) -> ReplayedRollout:
        """The rollout that follows the last one, without gradients."""
        states = self._states or self._zeros(rollout.n_envs)
        replay = replayed(rollout, self._model, states, self._device)
        going_on = torch.from_numpy(~_ended(rollout)[-1]).to(self._device)[:, None]
        last = {name: rows.view(rollout.n_steps, rollout.n_envs, -1)[-1] for name, rows in replay.after.items()}
        self._states = {name: state * going_on for name, state in last.items()}
        return replay

    def _zeros(self, n_envs: int) -> TensorDict:
        shapes = self._model.state_shapes(self._key)
        return {name: torch.zeros(n_envs, *shape, device=self._device) for name, shape in shapes.items()}


def replayed(
    rollout: RolloutBuffer, model: RecurrentModel, states: TensorDict, device: torch.device
) -> ReplayedRollout:
    """A rollout from these states (N, S), without gradients."""
    observation = {name: _rows(array, device) for name, array in rollout.observation.items()}
    observation[BEGINS] = episode_begins(rollout, device)
    with torch.no_grad():
        logits, value, after = model.advance(rollout.policy_key, {**observation, **states})
    assert value is not None
    return ReplayedRollout(observation, states, logits, value, after)


def episode_begins(rollout: RolloutBuffer, device: torch.device) -> Tensor:
    """(T·N,) float32: 1 where an episode begins within the rollout; before its first step states say it by zeros."""
    ended = _ended(rollout)
    return _rows(np.concatenate([np.zeros((1, rollout.n_envs), bool), ended[:-1]]), device).float()


def following_value(
    model: RecurrentModel,
    policy_key: PolicyKey,
    observation: ArrayDict,
    after: TensorDict,
    rows: np.ndarray,
    begins: np.ndarray | None = None,
) -> Tensor:
    """Values (m,) of observations (m, …) that follow rows of a rollout, without gradients.

    Args:
        model, policy_key: of the rollout.
        observation: on the CPU.
        after: states (T·N, S) after each row.
        rows: (m,) which row each observation follows.
        begins: (m,) bool, where an episode begins with it; None: nowhere.
    """
    device = next(iter(after.values())).device
    index = torch.from_numpy(rows).to(device)
    inputs = {name: torch.from_numpy(array).to(device) for name, array in observation.items()}
    inputs |= {name: states.index_select(0, index) for name, states in after.items()}
    inputs[BEGINS] = torch.zeros(len(rows), device=device) if begins is None else _rows(begins, device).float()
    with torch.no_grad():
        return model.value(policy_key, inputs)


def _ended(rollout: RolloutBuffer) -> np.ndarray:
    """(T, N): whether an episode begins with what follows a step."""
    ended: np.ndarray = rollout.terminated | rollout.truncated | rollout.void
    return ended


def _rows(array: np.ndarray, device: torch.device) -> Tensor:
    """(T, N, …) as (T·N, …); of one dimension as it is."""
    return torch.from_numpy(array if array.ndim == 1 else array.reshape(-1, *array.shape[2:])).to(device)
