"""A batch: rollouts side by side, time-major, first in arrays that actors' rollouts are copied to, then as tensors.

The tensors of structured environments are in `maze_impala.structured_batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from maze_impala.losses import clip_reward
from maze_impala.sent_states import state_columns
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import carries_state
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.collector import idle_decisions, make_buffer
from maze_runtime.rollout.state_replay import ReplayedRollout, following_value, replayed
from maze_runtime.rollout.structured_buffer import Departure, Finals, StructuredBuffer

Truncations = Sequence[tuple[int, np.ndarray, Any]]
"""As in `RolloutBuffer.truncations` or `StructuredBuffer.truncations`."""

LOG_PROB = "log_prob"
"""The column that actors add to those of a buffer: log mu(a|x), (T, N) float32."""

CARRIED = "carried"
"""Another one in structured environments, for delta critics: (N,) float32, what the decision before the rollout was
worth to the weights it was made with; 0 where that ended a flat step."""


def rollout_columns(model: ActorCritic, n_steps: int, n_envs: int) -> ArrayDict:
    """The arrays of rollouts of n environments, by name: the columns of a buffer, and what actors add to them."""
    buffer = make_buffer(model.spaces, n_steps, n_envs)
    columns = {**buffer.columns(), LOG_PROB: np.zeros((n_steps, n_envs), np.float32), **_states(model, n_steps, n_envs)}
    return columns if model.spaces.is_flat else {**columns, CARRIED: np.zeros(n_envs, np.float32)}


def _states(model: ActorCritic, n_steps: int, n_envs: int) -> ArrayDict:
    """The states before the first step of models that carry some: (N, S) by name; structured: see `sent_states`."""
    if not carries_state(model):
        return {}
    recurrent = cast(RecurrentModel, model)
    if not model.spaces.is_flat:
        return state_columns(recurrent, n_steps, n_envs)
    shapes = recurrent.state_shapes(model.spaces.policy_keys[0])
    return {name: np.zeros((n_envs, *shape), np.float32) for name, shape in shapes.items()}


class BatchBuffer:
    """B rollouts, overwritten by the next batch.

    Attributes:
        rollouts: the arrays that a buffer of B environments has.
        log_prob: (T, B) float32 of the actors.
        carried: (B,) float32, see `CARRIED`.
        states: name to (B, S) float32, before the first step; of models that carry some. See `sent_states` for those of
            structured environments.
        version: (B,) int64, of the weights each rollout was made with.
        n_filled: rollouts so far.
    """

    def __init__(self, model: ActorCritic, n_steps: int, n_rollouts: int) -> None:
        self.rollouts = make_buffer(model.spaces, n_steps, n_rollouts)
        self.log_prob = np.zeros((n_steps, n_rollouts), np.float32)
        self.carried = np.zeros(n_rollouts, np.float32)
        self.version = np.zeros(n_rollouts, np.int64)
        self.n_filled = 0
        self.states = _states(model, n_steps, n_rollouts)
        self._columns = {**self.rollouts.columns(), LOG_PROB: self.log_prob, **self.states}
        if isinstance(self.rollouts, StructuredBuffer):
            self._columns[CARRIED] = self.carried
        self._time_major = {*self.rollouts.time_major, LOG_PROB}

    @property
    def n_free(self) -> int:
        """Rollouts that are missing."""
        return self.rollouts.n_envs - self.n_filled

    def clear(self) -> None:
        """Start a new batch."""
        self.n_filled = 0
        self.rollouts.truncations.clear()
        if isinstance(self.rollouts, StructuredBuffer):
            self.rollouts.departures.clear()

    def add(
        self,
        columns: Mapping[str, np.ndarray],
        source: slice,
        truncations: Truncations,
        version: int,
        departures: Sequence[Departure] = (),
    ) -> None:
        """Append environments `source` of rollouts whose arrays are those of `rollout_columns`.

        Where there are tables, decision t of environment n must be in their rows n·T + t.
        """
        shift = self.n_filled - source.start
        target = slice(self.n_filled, source.stop + shift)
        for name, array in self._columns.items():
            if name in self._time_major:
                array[:, target] = columns[name][:, source]
            else:
                array[target] = columns[name][source]
        if isinstance(self.rollouts, StructuredBuffer):
            self.rollouts.row[:, target] += shift * self.rollouts.n_steps
            own_envs = range(source.start, source.stop)
            own_departures = [one for one in departures if one.env_index in own_envs]
            self.rollouts.departures += [one._replace(env_index=one.env_index + shift) for one in own_departures]
        for step, index, final in truncations:
            own = (index >= source.start) & (index < source.stop)
            if own.any():
                self.rollouts.truncations.append((step, index[own] + shift, _select(final, own)))
        self.version[target] = version
        self.n_filled = target.stop

    def n_env_steps(self) -> int:
        """Environment steps in the batch: flat steps; those that only reset are none."""
        idle = idle_decisions(self.rollouts)
        return idle.size - int(np.count_nonzero(idle))

    def arrays(self) -> ArrayDict:
        """Every array by name, to be saved."""
        return {name.replace("/", "."): array for name, array in self._columns.items()}


def _select(final: Finals | ArrayDict, own: np.ndarray) -> Any:
    return final.select(own) if isinstance(final, Finals) else {name: rows[own] for name, rows in final.items()}


class VTraceBatch(NamedTuple):
    """Tensors of one update in flat environments: dicts of (T·B, ...), all else (T, B); row t·B + b is [t, b].

    A NamedTuple, so that torch's function transforms and compiler see through it. `bootstrap` holds V of what
    followed where `bootstraps`; elsewhere that is the next row. `discount` and `continues` as in `vtrace`. Among the
    observations of a model that carries state are the states (B, S) before the first step, and `BEGINS`.
    """

    observation: TensorDict
    action: TensorDict
    log_prob: Tensor
    reward: Tensor
    discount: Tensor
    continues: Tensor
    bootstrap: Tensor
    bootstraps: Tensor
    weight: Tensor


def make_batch(
    buffer: BatchBuffer, model: ActorCritic, device: torch.device, *, gamma: float, reward_clipping: str
) -> VTraceBatch:
    """The tensors of a full buffer on `device`; those on the CPU share its memory."""
    rollouts = buffer.rollouts
    assert isinstance(rollouts, RolloutBuffer)
    n_rows = rollouts.n_steps * rollouts.n_envs

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    def rows(arrays: ArrayDict) -> TensorDict:
        return {name: tensor(array.reshape(n_rows, *array.shape[2:])) for name, array in arrays.items()}

    observation = rows(rollouts.observation)
    replay: ReplayedRollout | None = None
    if buffer.states:
        states = {name: tensor(array) for name, array in buffer.states.items()}
        replay = replayed(rollouts, cast(RecurrentModel, model), states, device)
        observation = {**replay.observation, **states}
    bootstrap, bootstraps = _bootstrap(rollouts, model, device, replay)
    ended = rollouts.terminated | rollouts.truncated
    return VTraceBatch(
        observation,
        rows(rollouts.action),
        tensor(buffer.log_prob),
        clip_reward(tensor(rollouts.reward), reward_clipping),
        tensor(np.float32(gamma) * ~rollouts.terminated),
        tensor((~ended).astype(np.float32)),
        bootstrap,
        tensor(bootstraps),
        tensor((~rollouts.void).astype(np.float32)),
    )


def _bootstrap(
    rollouts: RolloutBuffer, model: ActorCritic, device: torch.device, replay: ReplayedRollout | None
) -> tuple[Tensor, np.ndarray]:
    """Values of the observations after the last row and of final ones of truncated episodes, and where they count."""
    last = np.full(rollouts.n_envs, rollouts.n_steps - 1)
    steps, envs, observations = [last], [np.arange(rollouts.n_envs)], [rollouts.last_observation]
    for step, index, observation in rollouts.truncations:
        steps.append(np.full(len(index), step))
        envs.append(index)
        observations.append(observation)
    joined = {
        name: np.concatenate([observation[name] for observation in observations]) for name in rollouts.last_observation
    }
    step_of, env_of = np.concatenate(steps), np.concatenate(envs)
    if replay is None:
        with torch.no_grad():
            tensors = {name: torch.from_numpy(array).to(device) for name, array in joined.items()}
            value = model.value(rollouts.policy_key, tensors)
    else:
        # of an episode that ended with the last row the value is not used, or comes from `truncations`
        rows = step_of * rollouts.n_envs + env_of
        value = following_value(cast(RecurrentModel, model), rollouts.policy_key, joined, replay.after, rows)
    mask = np.zeros(rollouts.reward.shape, bool)
    mask[step_of, env_of] = True
    values = torch.zeros(mask.shape, device=device)
    # those of truncated episodes stand behind those of the last row, and take their places
    values[-1] = value[: rollouts.n_envs]
    if len(steps) > 1:
        at = (
            torch.from_numpy(step_of[rollouts.n_envs :]).to(device),
            torch.from_numpy(env_of[rollouts.n_envs :]).to(device),
        )
        values[at] = value[rollouts.n_envs :]
    return values, mask
