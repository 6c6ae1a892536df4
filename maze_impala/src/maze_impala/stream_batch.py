"""A batch of structured environments: decision streams laid end to end, observations and actions by policy key.

A row is a decision. Rows are sorted by environment, then (for a critic that values actors) by actor, then by time; so
what follows a row in its series is the next row, and V-trace runs along them as along the steps of a flat rollout.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_impala.batch import BatchBuffer
from maze_impala.losses import clip_reward
from maze_kernel.env.contract import PolicyKey
from maze_kernel.models.contract import ActorCritic
from maze_kernel.rollout.decision_stream import (
    DecisionStream,
    accumulate_differences,
    actor_links,
    state_links,
)
from maze_kernel.rollout.decision_tensors import DecisionTensors, decision_tensors, to_tensor
from maze_kernel.rollout.decision_values import critic_kind_of, value_stream
from maze_kernel.rollout.structured_buffer import DecisionIndex, StructuredBuffer

_ROW_QUANTUM = 16
"""Compiled code sees a multiple of so many decisions a policy key, so that few shapes occur."""


class StreamBatch(NamedTuple):
    """Tensors of one update in structured environments; all but `keys` and `bootstrap` are (R,), a decision a row.

    `order` says where each row is among the decisions of all `keys`, one key after the other. `reward` sums up what
    came until the next row of the series, each discounted by the time in between, and `discount` is that of the value
    of what follows: `following` points to it among the R rows and, behind them, `bootstrap`. `continues` as in
    `vtrace`. `before` is what a delta critic adds to, else 0. `weight` is 1; `share` is 1 / R_k, which makes keys count
    alike.
    """

    keys: dict[PolicyKey, DecisionTensors]
    order: Tensor
    log_prob: Tensor
    reward: Tensor
    discount: Tensor
    continues: Tensor
    following: Tensor
    bootstrap: Tensor
    before: Tensor
    weight: Tensor
    share: Tensor


def make_stream_batch(
    buffer: BatchBuffer,
    model: ActorCritic,
    device: torch.device,
    *,
    gamma: float,
    reward_clipping: str,
    fixed_size: bool = False,
) -> StreamBatch:
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
    stream, before = _valued(buffer, rollouts, model, device, reward_clipping)
    by_actor = critic_kind_of(model) == "step-state"
    links = (actor_links if by_actor else state_links)(stream, gamma=gamma)
    rows = _in_order(rollouts, stream.series if by_actor else None)
    decisions = {key: own for key in rollouts.policy_keys if len(own := rollouts.decisions(key))}
    filled = {key: _fill_up(own) if fixed_size else own for key, own in decisions.items()}
    order, share = _places(decisions, {key: len(own) for key, own in filled.items()}, rollouts.reward.shape)

    def in_order(array: np.ndarray) -> Tensor:
        return to_tensor(array[rows], device)

    return StreamBatch(
        keys={key: decision_tensors(rollouts, key, own, device) for key, own in filled.items()},
        order=in_order(order),
        log_prob=in_order(buffer.log_prob),
        reward=in_order(links.reward),
        discount=in_order(links.discount),
        continues=in_order((links.trace > 0.0).astype(np.float32)),
        following=in_order(_positions(stream, rows)[links.following]),
        bootstrap=to_tensor(stream.outcomes()[stream.value.size :], device),
        before=in_order(before),
        weight=torch.ones(len(rows[0]), device=device),
        share=in_order(share),
    )


def delta_values(
    buffer: StructuredBuffer, model: ActorCritic, carried: np.ndarray, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Values (T, N) of the decisions of a delta critic, and the part of each that comes from the decision before.

    Args:
        buffer: a whole rollout.
        model: on `device`.
        carried: (N,) what the decision before the rollout was worth, see `CARRIED`.
        device: of the model.
    """
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
    buffer: BatchBuffer, rollouts: StructuredBuffer, model: ActorCritic, device: torch.device, reward_clipping: str
) -> tuple[DecisionStream, np.ndarray]:
    """The stream with rewards to learn from and the values of what follows, and what a delta critic adds to, (T, N)."""
    value = before = np.zeros_like(rollouts.reward)
    if critic_kind_of(model) == "delta-state":
        value, before = delta_values(rollouts, model, buffer.carried, device)
    stream = value_stream(rollouts, model, value, device)
    reward = clip_reward(torch.from_numpy(stream.reward), reward_clipping).numpy()
    return attrs.evolve(stream, reward=reward), before


def _in_order(buffer: StructuredBuffer, series: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Step and environment (R,) of each row, by environment, series and time; void decisions are none."""
    steps, envs = np.nonzero(~buffer.void)
    keys = (steps, envs) if series is None else (steps, series[steps, envs], envs)
    order = np.lexsort(keys)
    return steps[order], envs[order]


def _places(
    decisions: dict[PolicyKey, DecisionIndex], sizes: dict[PolicyKey, int], shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """(T, N) where each decision is among those of all keys, and 1 / R_k."""
    order, share = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    first = 0
    for key, own in decisions.items():
        order[own.step, own.env_index] = first + np.arange(len(own))
        share[own.step, own.env_index] = 1.0 / len(own)
        first += sizes[key]
    return order, share


def _positions(stream: DecisionStream, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Where each of `stream.outcomes()` is among the R rows and what bootstraps them."""
    n_envs, n_decisions, n_rows = stream.value.shape[1], stream.value.size, len(rows[0])
    positions = np.zeros(2 * n_decisions + n_envs, np.int64)
    positions[rows[0] * n_envs + rows[1]] = np.arange(n_rows)
    positions[n_decisions:] = n_rows + np.arange(n_decisions + n_envs)
    return positions


def _fill_up(own: DecisionIndex) -> DecisionIndex:
    size = len(own) + -len(own) % _ROW_QUANTUM
    return DecisionIndex(*(np.resize(array, size) for array in (own.step, own.env_index, own.row, own.agent_id)))
