"""What a model makes of a rollout of structured environments: values of what followed its decisions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.rollout.decision_tensors import to_tensor
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.rollout.successors import ValuedRollout, series_of


def critic_kind_of(model: ActorCritic) -> str:
    """What the model's values mean; see `ActorCritic`."""
    kind: str = getattr(model, "critic_kind", "shared-state")
    return kind


class StatesAfter(Protocol):
    """The states from which a model that carries some values what followed decisions; see `models.recurrence`."""

    def __call__(
        self, key: PolicyKey, step: np.ndarray, env_index: np.ndarray, agent_id: np.ndarray, *, reset: bool
    ) -> dict[str, Tensor]:
        """What the model reads beside the observations (m, ...) that these actors saw after these steps, (m,) each.

        Args:
            reset: an episode that ended at the step has begun anew; else it is the final observation that is valued.
        """
        ...


def value_rollout(
    buffer: StructuredBuffer,
    model: ActorCritic,
    value: np.ndarray,
    device: torch.device,
    states_after: StatesAfter | None = None,
) -> ValuedRollout:
    """A rollout with its values; what followed it and its truncated episodes is valued by the model.

    Args:
        buffer: a whole rollout.
        model: on `device`.
        value: (T, N) float32 of each decision; a delta critic's values of what follows are added to these.
        device: of the model.
        states_after: of a model that carries state from step to step; None: it carries none.
    """
    kind = critic_kind_of(model)
    is_delta = kind == "delta-state"
    final_value = np.zeros_like(value)
    for step, index, final in buffer.truncations:
        more = _states(states_after, final.policy_key, np.full(len(index), step), index, final.agent_id, reset=False)
        worth = _values(model, final.policy_key, final.observation, final.agent_id, device, more)
        if is_delta:
            # V(s_final) = V(s_t) + d(s_final) within a flat step, else d(s_final)
            worth = worth + np.where(buffer.flat_step_end[step, index], np.float32(0.0), value[step, index])
        final_value[step, index] = worth
    last_value = _last_values(buffer, model, device, states_after)
    if is_delta:
        # V(s_T) = V(s_{T−1}) + d(s_T) within a flat step, else d(s_T)
        last_value = last_value + carried_values(buffer, value)
    return ValuedRollout(
        reward=buffer.actor_reward,
        value=value,
        terminated=buffer.terminated,
        truncated=buffer.truncated,
        flat_step_end=buffer.flat_step_end,
        actor_done=buffer.actor_done,
        final_value=final_value,
        last_value=last_value,
        **(_actor_series(buffer) if kind == "step-state" else _one_series(buffer)),
    )


def _one_series(buffer: StructuredBuffer) -> dict[str, Any]:
    """`ValuedRollout`'s series of a critic that values the state, whoever decides."""
    nothing = np.zeros(buffer.reward.shape, np.int64)
    return {"series": nothing, "final_series": nothing, "last_series": nothing[0], "n_series": 1}


def _actor_series(buffer: StructuredBuffer) -> dict[str, Any]:
    """Those of a critic that values it for each actor, numbered from 0, and who left."""
    final_series = np.zeros(buffer.reward.shape, np.int64)
    for step, index, final in buffer.truncations:
        key_index = buffer.policy_keys.index(final.policy_key)
        final_series[step, index] = series_of(np.full(len(index), key_index), final.agent_id)
    series = series_of(buffer.key_index, buffer.agent_id)
    last_series = series_of(buffer.last_key_index, buffer.last_agent_id)
    who = np.array([own[2:] for own in buffer.departures], np.int64).reshape(-1, 2)
    gone = series_of(who[:, 0], who[:, 1])
    names, compact = np.unique(
        np.concatenate([series.ravel(), final_series.ravel(), last_series, gone]), return_inverse=True
    )
    compact, gone = np.split(compact, [(2 * buffer.n_steps + 1) * buffer.n_envs])
    compact = compact.reshape(2 * buffer.n_steps + 1, buffer.n_envs)
    return {
        "series": compact[: buffer.n_steps],
        "final_series": compact[buffer.n_steps : -1],
        "last_series": compact[-1],
        "n_series": len(names),
        "departures": [(*own[:2], int(one)) for own, one in zip(buffer.departures, gone, strict=True)],
    }


def carried_values(buffer: StructuredBuffer, value: np.ndarray) -> np.ndarray:
    """(N,) what a delta critic adds to after a rollout of these values (T, N): the last one within a flat step."""
    return np.where(buffer.step_over[-1], np.float32(0.0), value[-1])


def _last_values(
    buffer: StructuredBuffer, model: ActorCritic, device: torch.device, states_after: StatesAfter | None
) -> np.ndarray:
    values = np.zeros(buffer.n_envs, np.float32)
    for key_index, key in enumerate(buffer.policy_keys):
        index = np.flatnonzero(buffer.last_key_index == key_index)
        if index.size:
            observation = {name: array[index] for name, array in buffer.last_observation[key].items()}
            agents, last_step = buffer.last_agent_id[index], np.full(len(index), buffer.n_steps - 1)
            more = _states(states_after, key, last_step, index, agents, reset=True)
            values[index] = _values(model, key, observation, agents, device, more)
    return values


def _states(
    states_after: StatesAfter | None,
    key: PolicyKey,
    step: np.ndarray,
    env_index: np.ndarray,
    agent_id: np.ndarray,
    *,
    reset: bool,
) -> dict[str, Tensor]:
    return {} if states_after is None else states_after(key, step, env_index, agent_id, reset=reset)


def _values(
    model: ActorCritic,
    key: PolicyKey,
    observation: ArrayDict,
    agent_id: np.ndarray,
    device: torch.device,
    more: dict[str, Tensor],
) -> np.ndarray:
    with torch.no_grad():
        tensors = {name: to_tensor(array, device) for name, array in observation.items()} | more
        return model.value(key, tensors, to_tensor(agent_id, device)).cpu().numpy()
