"""Decision streams of structured environments: what follows each decision, and generalised advantages.

A critic either values the state, whoever decides (one series of values an environment), or values it for each actor
(one series a policy key and agent). NumPy over environments; no loop over them.
"""

from __future__ import annotations

import attrs
import numpy as np

from maze_kernel.rollout.advantages import generalized_advantages


@attrs.frozen(kw_only=True)
class DecisionStream:
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

    def outcomes(self) -> np.ndarray:
        """(T·N + N + T·N,) everything that may follow a decision: values, last values, final values, flattened."""
        return np.concatenate([self.value.reshape(-1), self.last_value, self.final_value.reshape(-1)])


@attrs.frozen(kw_only=True)
class Links:
    """What follows each decision of a stream in its series; (T, N) each.

    Attributes:
        reward: float32, all rewards until then, each discounted by the time since the decision.
        discount: float32, of the value of what follows; 0 where nothing does.
        trace: float32, the discount with lambda beside gamma; 0 unless a decision of the rollout follows.
        following: int64, where in `DecisionStream.outcomes` what follows is; the decision's own place where the
            series is cut off before anything follows.
    """

    reward: np.ndarray
    discount: np.ndarray
    trace: np.ndarray
    following: np.ndarray


def state_links(stream: DecisionStream, *, gamma: float) -> Links:
    """Links of one series an environment: the next decision follows, whoever takes it; lambda is 1."""
    n_steps, n_envs = stream.value.shape
    one, place = np.float32(1.0), np.arange(n_steps * n_envs).reshape(n_steps, n_envs)
    discount = np.where(stream.terminated, np.float32(0.0), np.where(stream.flat_step_end, np.float32(gamma), one))
    trace = np.where(stream.truncated, np.float32(0.0), discount)
    trace[-1] = 0.0
    following = np.where(stream.truncated, place + (n_steps + 1) * n_envs, place + n_envs)
    return Links(reward=stream.reward, discount=discount, trace=trace, following=following)


def actor_links(stream: DecisionStream, *, gamma: float, gae_lambda: float = 1.0) -> Links:
    """Links of one series an actor: the same actor's next decision follows.

    Between two decisions of an actor every reward of the environment counts, discounted by the time that has passed
    since the first of them; so actors are paid as a team. An actor that has left earns nothing from then on. An actor
    whose turn does not come again, because the rollout ends or the episode is truncated, is followed by itself,
    unless the observation that follows is its own.
    """
    return _ActorScan(stream, gamma, gae_lambda).links()


def state_advantages(stream: DecisionStream, *, gamma: float, gae_lambda: float) -> np.ndarray:
    """Generalised advantages (T, N) with one series an environment: the next value is that of the next decision.

    Discount and lambda act where environment time advances. Source: `generalized_advantages`.
    """
    following = np.concatenate([stream.value[1:], stream.last_value[None]])
    following = np.where(stream.truncated, stream.final_value, following)
    return generalized_advantages(
        stream.reward,
        stream.value,
        following,
        stream.terminated,
        stream.terminated | stream.truncated,
        gamma=gamma,
        gae_lambda=gae_lambda,
        flat_step_end=stream.flat_step_end,
    )


def actor_advantages(stream: DecisionStream, *, gamma: float, gae_lambda: float) -> np.ndarray:
    """Generalised advantages (T, N) with one series an actor, linked by `actor_links`.

    With one actor this is `generalized_advantages`, bit for bit.
    """
    links = actor_links(stream, gamma=gamma, gae_lambda=gae_lambda)
    # delta_k = R_k + D_k V_k' − V_k with reward R and discount D up to the actor's next decision k'
    advantages: np.ndarray = (links.reward + links.discount * stream.outcomes()[links.following]) - stream.value
    followers = np.where(links.trace > 0.0, links.following, 0)
    flat = advantages.reshape(-1)
    for step in range(len(advantages) - 2, -1, -1):
        # A_k = delta_k + D_k lambda_k A_k'
        advantages[step] += links.trace[step] * flat[followers[step]]
    return advantages


class _ActorScan:
    """Goes backwards in time; for each environment and series (N, S), what followed its last decision so far."""

    def __init__(self, stream: DecisionStream, gamma: float, gae_lambda: float) -> None:
        n_steps, n_envs = stream.value.shape
        shape = (n_envs, stream.n_series)
        self._stream = stream
        self._envs = np.arange(n_envs)
        one = np.float32(1.0)
        self._gamma = np.where(stream.flat_step_end, np.float32(gamma), one)
        self._trace_decay = np.where(stream.flat_step_end, np.float32(gamma) * np.float32(gae_lambda), one)
        self._reward = np.zeros(shape, np.float32)
        self._discount = np.ones(shape, np.float32)
        self._trace = np.zeros(shape, np.float32)
        self._following = np.full(shape, -1)
        self._following[self._envs, stream.last_series] = n_steps * n_envs + self._envs

    def links(self) -> Links:
        """Those of every decision."""
        reward, discount, trace = (np.empty_like(self._stream.value) for _ in range(3))
        following = np.empty(self._stream.value.shape, np.int64)
        for step in range(len(following) - 1, -1, -1):
            self._end_episodes(step)
            self._pass_time(step)
            reward[step], discount[step], trace[step], following[step] = self._decide(step)
        return Links(reward=reward, discount=discount, trace=trace, following=following)

    def _end_episodes(self, step: int) -> None:
        """Forget what came after an episode's end: nothing follows it, or its final observation."""
        stream = self._stream
        ended = np.flatnonzero(stream.terminated[step] | stream.truncated[step])
        if not ended.size:
            return
        self._reward[ended] = self._trace[ended] = 0.0
        self._following[ended] = -1
        self._discount[ended] = ~stream.terminated[step, ended][:, None]
        cut = ended[~stream.terminated[step, ended]]
        n_steps, n_envs = stream.value.shape
        self._following[cut, stream.final_series[step, cut]] = (n_steps + 1 + step) * n_envs + cut

    def _pass_time(self, step: int) -> None:
        """Every series of the environment gets the reward and, if time advances, is discounted."""
        gamma = self._gamma[step][:, None]
        self._reward = self._stream.reward[step][:, None] + gamma * self._reward
        self._discount *= gamma
        self._trace *= self._trace_decay[step][:, None]

    def _decide(self, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Reward, discount, trace and follower (N,) of the decisions at `step`, which begin their series anew."""
        here = (self._envs, self._stream.series[step])
        own, left = step * len(self._envs) + self._envs, self._stream.actor_done[step]
        reward = np.where(left, self._stream.reward[step], self._reward[here])
        discount = np.where(left, np.float32(0.0), self._discount[here])
        trace = np.where(left, np.float32(0.0), self._trace[here])
        following = np.where(self._following[here] < 0, own, self._following[here])
        self._following[here] = own
        self._reward[here], self._discount[here], self._trace[here] = 0.0, 1.0, 1.0
        return reward, discount, trace, following


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
    for step in range(len(difference)):
        before[step] = carried
        values[step] = carried + difference[step]
        carried = np.where(step_over[step], np.float32(0.0), values[step])
    return values, before


def series_of(key_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
    """One number an actor, the same for the same (policy key, agent); of any shape."""
    codes: np.ndarray = np.asarray(key_index, np.int64) * (1 << 32) + agent_id
    return codes
