"""What follows each decision of structured environments in its series, and generalised advantages.

A critic either values the state, whoever decides (one series of decisions an environment), or values it for each actor
(one series a policy key and agent). The *successor* of a decision is the next one of its series, or the observation
that ends it. NumPy over environments; no loop over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from maze_runtime.rollout.advantages import generalized_advantages


@attrs.frozen(kw_only=True)
class ValuedRollout:
    """T decisions of N environments, what they were worth, and what followed them.

    Attributes:
        reward: (T, N) float32.
        value: (T, N) float32, estimate of the decision's critic at the observation it was made on.
        terminated, truncated, flat_step_end, actor_done: (T, N) bool.
        final_value: (T, N) float32, at the final observation, where the episode was truncated.
        last_value: (N,) float32, at the observation after the rollout.
        series, final_series: (T, N) int64, which series of the environment the value and the final value belong to.
        last_series: (N,) int64.
        n_series: S.
        departures: (t, env index, series) of actors who left with a decision of another one.
    """

    reward: np.ndarray
    value: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    flat_step_end: np.ndarray
    actor_done: np.ndarray
    final_value: np.ndarray
    last_value: np.ndarray
    series: np.ndarray
    final_series: np.ndarray
    last_series: np.ndarray
    n_series: int
    departures: Sequence[tuple[int, int, int]] = ()

    def successor_values(self) -> np.ndarray:
        """(T·N + N + T·N,) of all that may follow a decision: values, last values, final values, flattened."""
        return np.concatenate([self.value.reshape(-1), self.last_value, self.final_value.reshape(-1)])


@attrs.frozen(kw_only=True)
class Successors:
    """What follows each decision k in its series, k′; (T, N) each.

    Attributes:
        reward: float32, R_k: all rewards until then, each discounted by the time since the decision.
        discount: float32, D_k, of the value of what follows; 0 where nothing does.
        trace: float32, the discount with lambda beside gamma; 0 unless a decision of the rollout follows.
        index: int64, where in `ValuedRollout.successor_values` what follows is; the decision's own place where the
            series is cut off before anything follows.
    """

    reward: np.ndarray
    discount: np.ndarray
    trace: np.ndarray
    index: np.ndarray


def state_successors(rollout: ValuedRollout, *, gamma: float) -> Successors:
    """With one series an environment: the next decision follows, whoever takes it; lambda is 1."""
    n_steps, n_envs = rollout.value.shape
    one, place = np.float32(1.0), np.arange(n_steps * n_envs).reshape(n_steps, n_envs)
    # k′ = k + 1, R_k = r_k, D_k = (1 − terminated_k) gamma_k; gamma_k = gamma where a flat step ends, else 1
    discount = np.where(rollout.terminated, np.float32(0.0), np.where(rollout.flat_step_end, np.float32(gamma), one))
    trace = np.where(rollout.truncated, np.float32(0.0), discount)
    trace[-1] = 0.0
    index = np.where(rollout.truncated, place + (n_steps + 1) * n_envs, place + n_envs)
    return Successors(reward=rollout.reward, discount=discount, trace=trace, index=index)


def actor_successors(rollout: ValuedRollout, *, gamma: float, gae_lambda: float = 1.0) -> Successors:
    """With one series an actor: the same actor's next decision follows.

    Between two decisions of an actor every reward of the environment counts, discounted by the time that has passed
    since the first of them; so actors are paid as a team. An actor that has left earns nothing from then on. An actor
    whose turn does not come again, because the rollout ends or the episode is truncated, is followed by itself,
    unless the observation that follows is its own.
    """
    return _ActorScan(rollout, gamma, gae_lambda).successors()


def state_advantages(rollout: ValuedRollout, *, gamma: float, gae_lambda: float) -> np.ndarray:
    """Generalised advantages (T, N) with one series an environment: the next value is that of the next decision.

    Discount and lambda act where environment time advances. Source: `generalized_advantages`.
    """
    # V(s_{t+1}): of the final observation where the episode was truncated, of the last one behind the rollout
    next_value = np.concatenate([rollout.value[1:], rollout.last_value[None]])
    next_value = np.where(rollout.truncated, rollout.final_value, next_value)
    return generalized_advantages(
        rollout.reward,
        rollout.value,
        next_value,
        rollout.terminated,
        rollout.terminated | rollout.truncated,
        gamma=gamma,
        gae_lambda=gae_lambda,
        flat_step_end=rollout.flat_step_end,
    )


def actor_advantages(rollout: ValuedRollout, *, gamma: float, gae_lambda: float) -> np.ndarray:
    """Generalised advantages (T, N) with one series an actor; see `actor_successors`.

    With one actor this is `generalized_advantages`, bit for bit.
    """
    after = actor_successors(rollout, gamma=gamma, gae_lambda=gae_lambda)
    # delta_k = R_k + D_k V(k′) − V(k)
    advantages: np.ndarray = (after.reward + after.discount * rollout.successor_values()[after.index]) - rollout.value
    index = np.where(after.trace > 0.0, after.index, 0)
    flat = advantages.reshape(-1)
    for step in range(len(advantages) - 2, -1, -1):
        # A_k = delta_k + D_k lambda_k A_k′
        advantages[step] += after.trace[step] * flat[index[step]]
    return advantages


class _ActorScan:
    """Goes backwards in time; for each series and environment (S, N), what follows a decision made just before.

    With gamma_j = gamma and lambda_j = lambda where the flat step ends at j, else 1, and products over j = k … k′ − 1:
    R_k = Σ_j (Π_{i=k}^{j−1} gamma_i) r_j,  D_k = Π_j gamma_j,  D_k lambda_k = Π_j gamma_j lambda_j.
    """

    def __init__(self, rollout: ValuedRollout, gamma: float, gae_lambda: float) -> None:
        n_steps, n_envs = rollout.value.shape
        shape = (rollout.n_series, n_envs)
        self._rollout = rollout
        self._envs = np.arange(n_envs)
        one = np.float32(1.0)
        self._gamma = np.where(rollout.flat_step_end, np.float32(gamma), one)
        self._trace_decay = np.where(rollout.flat_step_end, np.float32(gamma) * np.float32(gae_lambda), one)
        # Steps at which nobody's episode ends, time passes nowhere or nobody leaves are most of them.
        self._ends = _any_in_step(rollout.terminated | rollout.truncated)
        self._time_passes = _any_in_step(rollout.flat_step_end)
        self._anyone_leaves = _any_in_step(rollout.actor_done)
        self._out_of_step = _any_in_step(rollout.series != rollout.series[:, :1])
        self._reward = np.zeros(shape, np.float32)
        self._discount = np.ones(shape, np.float32)
        self._trace = np.zeros(shape, np.float32)
        self._index = np.full(shape, -1)
        self._index[rollout.last_series, self._envs] = n_steps * n_envs + self._envs
        self._departures: dict[int, list[tuple[int, int]]] = {}
        for step, env, series in rollout.departures:
            self._departures.setdefault(step, []).append((series, env))

    def successors(self) -> Successors:
        """Those of every decision."""
        reward, discount, trace = (np.empty_like(self._rollout.value) for _ in range(3))
        index = np.empty(self._rollout.value.shape, np.int64)
        for step in range(len(index) - 1, -1, -1):
            self._end_episodes(step)
            for gone in self._departures.get(step, ()):
                self._leave(gone)
            self._pass_time(step)
            # Where one actor decides everywhere, its rows are read and written without an index.
            series = self._rollout.series[step]
            here: Any = (series, self._envs) if self._out_of_step[step] else int(series[0])
            reward[step], discount[step], trace[step] = self._reward[here], self._discount[here], self._trace[here]
            index[step] = self._index[here]
            self._begin_anew(step, here)
        if any(self._anyone_leaves):
            # R_k = r_k and D_k = 0 where the actor leaves
            left = self._rollout.actor_done
            reward = np.where(left, self._rollout.reward, reward)
            discount, trace = (np.where(left, np.float32(0.0), array) for array in (discount, trace))
        own = np.arange(index.size).reshape(index.shape)
        index = np.where(index < 0, own, index)
        return Successors(reward=reward, discount=discount, trace=trace, index=index)

    def _end_episodes(self, step: int) -> None:
        """Forget what came after an episode's end: nothing follows it, or its final observation."""
        if not self._ends[step]:
            return
        rollout = self._rollout
        ended = np.flatnonzero(rollout.terminated[step] | rollout.truncated[step])
        self._reward[:, ended] = self._trace[:, ended] = 0.0
        self._index[:, ended] = -1
        self._discount[:, ended] = ~rollout.terminated[step, ended]
        cut = ended[~rollout.terminated[step, ended]]
        n_steps, n_envs = rollout.value.shape
        self._index[rollout.final_series[step, cut], cut] = (n_steps + 1 + step) * n_envs + cut

    def _leave(self, gone: tuple[int, int]) -> None:
        """Nothing follows this step for an actor (series, environment) who leaves with it, but its reward."""
        self._reward[gone] = self._discount[gone] = self._trace[gone] = 0.0
        self._index[gone] = -1

    def _pass_time(self, step: int) -> None:
        """Every series of the environment gets the reward and, if time advances, is discounted."""
        # R ← r_j + gamma_j R,  D ← gamma_j D,  D lambda ← gamma_j lambda_j D lambda
        if self._time_passes[step]:
            self._reward *= self._gamma[step]
            self._discount *= self._gamma[step]
            self._trace *= self._trace_decay[step]
        self._reward += self._rollout.reward[step]

    def _begin_anew(self, step: int, here: Any) -> None:
        """The decisions at `step` are what follows in their series from now on: R = 0, D = 1."""
        self._index[here] = step * len(self._envs) + self._envs
        self._reward[here], self._discount[here], self._trace[here] = 0.0, 1.0, 1.0


def _any_in_step(flags: np.ndarray) -> list[bool]:
    """(T, N) to T: whether any environment's flag is up."""
    rows: list[bool] = np.logical_or.reduce(flags, axis=1).tolist()
    return rows


def accumulate_differences(
    difference: np.ndarray, step_over: np.ndarray, carried: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a delta critic: the first decision of a flat step is valued, each further one adds a difference.

    Args:
        difference: (T, N), what the critic gives.
        step_over: (T, N) bool, the decision at t finished its flat step or its episode.
        carried: (N,) value of the decision before the first one, zero where that finished its flat step.

    Returns:
        (T, N) values, and (T, N) the part of each that comes from the decision before.
    """
    values, before = np.empty_like(difference), np.empty_like(difference)
    goes_on = (~step_over).astype(difference.dtype)
    for step, value in enumerate(values):
        # V_t = V_{t−1} + d_t within a flat step; its first decision is valued by d_t alone
        before[step] = carried
        np.add(carried, difference[step], out=value)
        carried = value * goes_on[step]
    return values, before


def series_of(key_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
    """One number an actor, the same for the same (policy key, agent); of any shape."""
    codes: np.ndarray = np.asarray(key_index, np.int64) * (1 << 32) + agent_id
    return codes
