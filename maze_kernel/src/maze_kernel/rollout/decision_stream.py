"""Values and advantages on the decision streams of structured environments.

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
    """Generalised advantages (T, N) with one series an actor: the next value is that of the same actor's next decision.

    Between two decisions of an actor every reward of the environment counts, discounted by the time that has passed
    since the first of them; so actors are paid as a team. An actor that has left earns nothing from then on. An actor
    whose turn does not come again, because the rollout ends or the episode is truncated, bootstraps from the
    estimate it acted on, unless the observation that follows is its own. With one actor this is
    `generalized_advantages`, bit for bit.
    """
    scan = _ActorScan(stream, gamma, gae_lambda)
    advantages = np.empty_like(stream.value)
    for step in range(len(stream.value) - 1, -1, -1):
        scan.end_episodes(step)
        scan.pass_time(step)
        advantages[step] = scan.decide(step)
    return advantages


class _ActorScan:
    """Goes backwards in time; for each environment and series (N, S), what followed its last decision so far."""

    def __init__(self, stream: DecisionStream, gamma: float, gae_lambda: float) -> None:
        shape = (stream.value.shape[1], stream.n_series)
        self._stream = stream
        self._envs = np.arange(shape[0])
        one = np.float32(1.0)
        self._gamma = np.where(stream.flat_step_end, np.float32(gamma), one)
        self._trace_decay = np.where(stream.flat_step_end, np.float32(gamma) * np.float32(gae_lambda), one)
        self._value = np.zeros(shape, np.float32)
        self._is_known = np.zeros(shape, bool)
        self._advantage = np.zeros(shape, np.float32)
        self._reward = np.zeros(shape, np.float32)
        self._discount = np.ones(shape, np.float32)
        self._trace = np.ones(shape, np.float32)
        self._bootstrap(self._envs, stream.last_series, stream.last_value)

    def _bootstrap(self, envs: np.ndarray, series: np.ndarray, value: np.ndarray) -> None:
        self._value[envs, series] = value
        self._is_known[envs, series] = True

    def end_episodes(self, step: int) -> None:
        """Forget what came after an episode's end: nothing follows it, or its final observation."""
        stream = self._stream
        ended = np.flatnonzero(stream.terminated[step] | stream.truncated[step])
        if not ended.size:
            return
        for array, blank in ((self._value, 0.0), (self._advantage, 0.0), (self._reward, 0.0)):
            array[ended] = blank
        self._discount[ended] = self._trace[ended] = 1.0
        self._is_known[ended] = stream.terminated[step, ended][:, None]
        cut = ended[~stream.terminated[step, ended]]
        self._bootstrap(cut, stream.final_series[step, cut], stream.final_value[step, cut])

    def pass_time(self, step: int) -> None:
        """Every series of the environment gets the reward and, if time advances, is discounted."""
        gamma = self._gamma[step][:, None]
        self._reward = self._stream.reward[step][:, None] + gamma * self._reward
        self._discount *= gamma
        self._trace *= self._trace_decay[step][:, None]

    def decide(self, step: int) -> np.ndarray:
        """(N,) advantages of the decisions at `step`, which begin their series anew."""
        place = (self._envs, self._stream.series[step])
        value = self._stream.value[step]
        following = np.where(self._is_known[place], self._value[place], value)
        # delta_k = R_k + D_k V_k' − V_k with reward R and discount D up to the actor's next decision k'
        delta = (self._reward[place] + self._discount[place] * following) - value
        # A_k = delta_k + D_k lambda_k A_k'
        advantage: np.ndarray = delta + self._trace[place] * self._advantage[place]
        advantage = np.where(self._stream.actor_done[step], self._stream.reward[step] - value, advantage)
        self._value[place], self._is_known[place], self._advantage[place] = value, True, advantage
        self._reward[place], self._discount[place], self._trace[place] = 0.0, 1.0, 1.0
        return advantage


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
