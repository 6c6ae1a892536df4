"""Plays whole episodes with given seeds: evaluation, rollouts and tests stand on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Group, Tick, VectorEnv
from maze_kernel.errors import MazeError, MazeWarning
from maze_runtime.events.log_files import EventRows
from maze_runtime.rollout.rounds import RoundsOfBatch

LONG_EPISODE = 5_000
"""Decisions of an episode without a limit after which somebody who waits for its end is told."""


@attrs.frozen(kw_only=True)
class EpisodeResult:
    """One episode.

    Attributes:
        seed: the environment's.
        total_reward: undiscounted sum.
        length: flat steps.
        terminated, truncated: how it ended; both false where `max_steps` or an error cut it.
        error: what failed, or None.
        traceback: of what failed, as text, where it was an exception of somebody else's.
        cause: the error of Maze behind `error`, where it is one.
        events: the statistics of its events, where it was asked for and the environment reports any.
        event_rows: every event, where it was asked for.
        seconds: where the time went, by section, where it was asked for.
    """

    seed: int
    total_reward: float
    length: int
    terminated: bool
    truncated: bool
    error: str | None = None
    traceback: str | None = attrs.field(default=None, repr=False)
    cause: MazeError | None = attrs.field(default=None, repr=False, eq=False)
    events: EpisodeStatistics | None = attrs.field(default=None, repr=False)
    event_rows: Sequence[EventRows] | None = attrs.field(default=None, repr=False)
    seconds: Mapping[str, float] | None = attrs.field(default=None, repr=False)


def run_episodes(
    vector_env: VectorEnv,
    policy: Policy,
    seeds: Sequence[int],
    *,
    deterministic: bool,
    max_steps: int | None = None,
    with_events: bool = False,
) -> list[EpisodeResult]:
    """Play one episode a seed and return the results in the order of the seeds.

    Environment i plays seeds i, i + N, i + 2N, …: which episodes are counted does not depend on how long they
    take, so short episodes are not favoured. A natively vectorised environment reads only one seed: give
    it as many environments as seeds if the episodes must be the same every time.

    Args:
        vector_env: N environments; reset here.
        policy: decides for all of them.
        seeds: of the episodes.
        deterministic: take modes instead of samples.
        max_steps: cut episodes after so many flat steps, or rounds of games that are one flat step each; None: never.
            With it the episodes are played in waves of N, all reset together.
        with_events: drain the event statistics of the environments, and give each result those of its episode. What
            an environment reports of episodes that it plays on while others have not ended is dropped.
    """
    wave = len(seeds) if max_steps is None else vector_env.n_envs
    results: list[EpisodeResult] = []
    for start in range(0, len(seeds), wave):
        played = _Wave(vector_env, policy, seeds[start : start + wave], deterministic, max_steps).play()
        results += _with_events(played, vector_env) if with_events else played
    return results


def _with_events(results: list[EpisodeResult], vector_env: VectorEnv) -> list[EpisodeResult]:
    """The results of a wave with the event statistics of their episodes, which environment i has played first."""
    batch = capability(vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
    episodes = [] if batch is None else batch.drain_batch_statistics()
    found = list(results)
    for index, own in enumerate(episodes):
        for j, events in zip(range(index, len(results), vector_env.n_envs), own, strict=False):
            found[j] = attrs.evolve(results[j], events=events)
    return found


class _Wave:
    """Episodes of environments that are reset together; every environment has a queue of them."""

    def __init__(
        self, vector_env: VectorEnv, policy: Policy, seeds: Sequence[int], deterministic: bool, max_steps: int | None
    ) -> None:
        self._vector_env = vector_env
        self._policy = policy
        self._seeds = seeds
        self._deterministic = deterministic
        self._max_steps = max_steps
        n_envs = vector_env.n_envs
        self._is_one_step = vector_env.structured_spaces.pays_differences
        self._rounds = RoundsOfBatch(n_envs) if max_steps is not None and self._is_one_step else None
        self._queues = [list(range(i, len(seeds), n_envs)) for i in range(n_envs)]
        self._results: dict[int, EpisodeResult] = {}
        self._total = np.zeros(n_envs, np.float64)
        self._length, self._n_rounds = np.zeros(n_envs, np.int64), np.zeros(n_envs, np.int64)
        self._n_ticks = 0
        self._began = [0] * n_envs

    def play(self) -> list[EpisodeResult]:
        tick = self._vector_env.reset([[self._seeds[j] for j in queue] or [0] for queue in self._queues])
        self._policy.begin_episodes(np.arange(self._vector_env.n_envs))
        was_told = self._max_steps is not None
        while len(self._results) < len(self._seeds):
            tick = self._step(tick)
            self._n_ticks += 1
            if self._n_ticks % LONG_EPISODE == 0 and not was_told:
                was_told = self._tells_of_long_episode()
        return [self._results[j] for j in range(len(self._seeds))]

    def _step(self, tick: Tick) -> Tick:
        awaiting_reset, decided = tick.awaiting_reset, tick.groups
        actions = {
            key: self._policy.act(key, group, deterministic=self._deterministic) for key, group in tick.groups.items()
        }
        tick = self._vector_env.step(actions)
        self._total += tick.reward
        self._length += _flat_steps(tick, awaiting_reset)
        ended = tick.terminated | tick.truncated
        finished = ended
        if self._max_steps is not None:
            finished = ended | (self._steps_taken(decided, tick, ended) >= self._max_steps)
        # `count_nonzero` costs a fifth of `any` on a small batch.
        if np.count_nonzero(finished):
            self._finish(finished.nonzero()[0], tick)
        if awaiting_reset is not None:
            ended = ended | awaiting_reset
        if np.count_nonzero(ended):
            self._policy.begin_episodes(ended.nonzero()[0])
        return tick

    def _steps_taken(self, decided: dict[PolicyKey, Group], tick: Tick, ended: np.ndarray) -> np.ndarray:
        """What `max_steps` is about, (N,)."""
        if self._rounds is None:
            return self._length
        self._n_rounds += self._rounds.are_over(decided, tick.groups, ended)
        return self._n_rounds

    def _is_cut_game(self, tick: Tick, index: int) -> bool:
        """Whether rounds ended an episode: what was played of its only flat step counts as one."""
        return self._rounds is not None and not (tick.terminated[index] or tick.truncated[index])

    def _tells_of_long_episode(self) -> bool:
        """Warn where an episode that counts is long; whether one was."""
        began = [began for began, queue in zip(self._began, self._queues, strict=True) if queue]
        length = self._n_ticks - min(began, default=self._n_ticks)
        if length >= LONG_EPISODE:
            what = f"an episode has gone on for {length:,} decisions: if nothing ever ends it,"
            limit = "give the game a limit of its own" if self._is_one_step else 'give it the wrapper "time-limit"'
            how = f"let the environment truncate it, {limit}, or cut a rollout by --max-steps"
            warnings.warn(f"{what} {how}", MazeWarning, stacklevel=2)
        return length >= LONG_EPISODE

    def _finish(self, env_index: np.ndarray, tick: Tick) -> None:
        for i in env_index:
            self._began[i] = self._n_ticks
            if self._queues[i]:
                j = self._queues[i].pop(0)
                self._results[j] = EpisodeResult(
                    seed=int(self._seeds[j]),
                    total_reward=float(self._total[i]),
                    length=int(self._length[i]) + self._is_cut_game(tick, i),
                    terminated=bool(tick.terminated[i]),
                    truncated=bool(tick.truncated[i]),
                )
        self._total[env_index] = 0.0
        self._length[env_index] = self._n_rounds[env_index] = 0


def _flat_steps(tick: Tick, awaiting_reset: np.ndarray | None) -> np.ndarray | int:
    """1 where a flat step ended, 0 elsewhere and where an environment was only reset."""
    ended = tick.flat_step_end
    if awaiting_reset is None:
        return 1 if ended is None else ended
    return ~awaiting_reset if ended is None else ended & ~awaiting_reset
