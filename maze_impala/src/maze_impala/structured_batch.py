"""A batch of structured environments: series of decisions laid end to end, observations and actions by policy key.

Decisions are sorted by environment, then (for a critic that values actors) by actor, then by time; so the successor of
a decision in its series stands behind it, and V-trace runs along them as along the steps of a flat rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_impala.batch import BatchBuffer
from maze_impala.losses import clip_reward
from maze_impala.sent_states import SentStates
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.rollout.actor_replay import ActorReplay
from maze_runtime.rollout.decision_tensors import ROW_QUANTUM, DecisionTensors, decision_tensors, to_tensor
from maze_runtime.rollout.decision_values import critic_kind_of, value_rollout
from maze_runtime.rollout.structured_buffer import DecisionIndex, StructuredBuffer
from maze_runtime.rollout.successors import (
    ValuedRollout,
    accumulate_differences,
    actor_successors,
    state_successors,
)


class StructuredVTraceBatch(NamedTuple):
    """Tensors of one update in structured environments, M decisions; (M,) where nothing else is said.

    Attributes:
        decisions: what each policy key's networks read.
        order: where each decision is among `decisions`, one key after the other.
        log_prob: of the actors.
        reward: what came until the successor, each reward discounted by the time in between.
        discount: of the successor's value.
        continues: as in `vtrace`.
        successor: points to it among the M decisions and, behind them, `bootstrap`.
        bootstrap: values of observations that end a series.
        before: what a delta critic adds to, else 0.
        weight: 1.
        share: 1 / M_k with M_k decisions of the policy key, which makes keys count alike.
    """

    decisions: dict[PolicyKey, DecisionTensors]
    order: Tensor
    log_prob: Tensor
    reward: Tensor
    discount: Tensor
    continues: Tensor
    successor: Tensor
    bootstrap: Tensor
    before: Tensor
    weight: Tensor
    share: Tensor


def make_structured_batch(
    buffer: BatchBuffer,
    model: ActorCritic,
    device: torch.device,
    *,
    gamma: float,
    reward_clipping: str,
    fixed_size: bool = False,
) -> StructuredVTraceBatch:
    """The tensors of a full buffer on `device`.

    Args:
        buffer: of structured environments.
        model: values what followed episodes and rollouts.
        device: of the model.
        gamma: discount a flat step.
        reward_clipping: see `clip_reward`; of the reward of each decision.
        fixed_size: fill the decisions of each policy key up with repeated ones that count nowhere, for compiled code.
    """
    rollouts = buffer.rollouts
    assert isinstance(rollouts, StructuredBuffer)
    replay = _replay(buffer, rollouts, model, device, ROW_QUANTUM if fixed_size else 1) if buffer.states else None
    valued, before = _valued(buffer, rollouts, model, device, reward_clipping, replay)
    by_actor = critic_kind_of(model) == "step-state"
    after = (actor_successors if by_actor else state_successors)(valued, gamma=gamma)
    places = _in_order(rollouts, valued.series if by_actor else None)
    if replay is None:
        index = {key: own for key in rollouts.policy_keys if len(own := rollouts.decisions(key))}
        rows = {key: _fill_up(own) if fixed_size else (own, np.ones(len(own), bool)) for key, own in index.items()}
        decisions = {key: decision_tensors(rollouts, key, own, device) for key, (own, _) in rows.items()}
    else:
        rows = {key: (own.decisions, own.exists.reshape(-1)) for key, own in replay.sequences.items()}
        decisions = {
            key: own._replace(observation={**own.observation, **replay.states[key]})
            for key, own in replay.decisions.items()
        }
    order, share = _order_and_share(rows, rollouts.reward.shape)

    def in_order(array: np.ndarray) -> Tensor:
        return to_tensor(array[places], device)

    return StructuredVTraceBatch(
        decisions=decisions,
        order=in_order(order),
        log_prob=in_order(buffer.log_prob),
        reward=in_order(after.reward),
        discount=in_order(after.discount),
        # 1 where the successor is a decision of the rollout
        continues=in_order((after.trace > 0.0).astype(np.float32)),
        successor=in_order(_positions(valued, places)[after.index]),
        bootstrap=to_tensor(valued.successor_values()[valued.value.size :], device),
        before=in_order(before),
        weight=torch.ones(len(places[0]), device=device),
        share=in_order(share),
    )


def delta_values(
    buffer: StructuredBuffer,
    model: ActorCritic,
    carried: np.ndarray,
    device: torch.device,
    replay: ActorReplay | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Values (T, N) of the decisions of a delta critic, and the part of each that comes from the decision before.

    Args:
        buffer: a whole rollout.
        model: on `device`.
        carried: (N,) what the decision before the rollout was worth, see `CARRIED`.
        device: of the model.
        replay: of a model that carries state, over the rollout.
    """
    if replay is not None:
        return accumulate_differences(replay.value, buffer.step_over, carried)
    difference = np.zeros_like(buffer.reward)
    for key in buffer.policy_keys:
        own = buffer.decisions(key)
        if len(own):
            decisions = decision_tensors(buffer, key, own, device)
            with torch.no_grad():
                value = model.value(key, decisions.observation, decisions.agent_id)
            difference[own.step, own.env_index] = value.cpu().numpy()
    return accumulate_differences(difference, buffer.step_over, carried)


def _valued(
    buffer: BatchBuffer,
    rollouts: StructuredBuffer,
    model: ActorCritic,
    device: torch.device,
    reward_clipping: str,
    replay: ActorReplay | None,
) -> tuple[ValuedRollout, np.ndarray]:
    """Rollouts with rewards to learn from and values of what follows, and what a delta critic adds to, (T, N)."""
    value = before = np.zeros_like(rollouts.reward)
    if critic_kind_of(model) == "delta-state":
        value, before = delta_values(rollouts, model, buffer.carried, device, replay)
    valued = value_rollout(rollouts, model, value, device, None if replay is None else replay.states_after)
    reward = clip_reward(torch.from_numpy(valued.reward), reward_clipping).numpy()
    return attrs.evolve(valued, reward=reward), before


def _in_order(buffer: StructuredBuffer, series: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Step and environment (M,) of each decision, by environment, series and time; void ones are none."""
    steps, envs = np.nonzero(~buffer.void)
    keys = (steps, envs) if series is None else (steps, series[steps, envs], envs)
    order = np.lexsort(keys)
    return steps[order], envs[order]


def _order_and_share(rows: Mapping[PolicyKey, _Rows], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(T, N) where each decision is among the rows of all keys, and 1 / M_k."""
    order, share = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    first = 0
    for own, counts in rows.values():
        place = own.step[counts], own.env_index[counts]
        order[place] = first + np.flatnonzero(counts)
        # share = 1 / M_k
        share[place] = 1.0 / np.count_nonzero(counts)
        first += len(own)
    return order, share


def _positions(valued: ValuedRollout, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Where each of `valued.successor_values()` is among the M decisions and what bootstraps them."""
    n_envs, n_all, n_counted = valued.value.shape[1], valued.value.size, len(places[0])
    positions = np.zeros(2 * n_all + n_envs, np.int64)
    positions[places[0] * n_envs + places[1]] = np.arange(n_counted)
    positions[n_all:] = n_counted + np.arange(n_all + n_envs)
    return positions


_Rows = tuple[DecisionIndex, np.ndarray]
"""Decisions of a policy key, and (B_k,) bool: which of them are not there to fill up."""


def _fill_up(own: DecisionIndex) -> _Rows:
    size = len(own) + -len(own) % ROW_QUANTUM
    columns = (np.resize(array, size) for array in (own.step, own.env_index, own.row, own.agent_id))
    return DecisionIndex(*columns), np.arange(size) < len(own)


def _replay(
    buffer: BatchBuffer, rollouts: StructuredBuffer, model: ActorCritic, device: torch.device, quantum: int
) -> ActorReplay:
    """The learner's pass over the sequences of all actors, from the states that they had."""
    recurrent = cast(RecurrentModel, model)
    before = {
        key: SentStates(buffer.states, rollouts, key, list(recurrent.state_shapes(key))) for key in rollouts.policy_keys
    }
    return ActorReplay(recurrent, device, rollouts, before, quantum)
