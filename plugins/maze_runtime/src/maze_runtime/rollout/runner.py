"""Plays episodes on a worker pool: the engine of `maze rollout`.

Each episode is played on its own, with an environment seed and a policy seed of its own, so the results do not
depend on the number of workers or on which of them plays it. An episode that fails is a result with an error,
never missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.contracts.workers import ActorContext, ActorGroup, Future, GroupOptions, RestartPolicy, WorkerPool
from maze_kernel.errors import MazeError, RequestError, WorkerError
from maze_runtime.env.profiling import shares
from maze_runtime.env.tracebacks import traceback_of
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.episode_observer import EpisodeObserver, played_envs
from maze_runtime.rollout.episodes import EpisodeResult, run_episodes
from maze_runtime.rollout.heuristic import WatchesEnvs
from maze_runtime.rollout.policy_seeds import policy_seed, seed_policy
from maze_runtime.rollout.video import write_video
from maze_runtime.rollout.window import FRAMES_PER_SECOND


@attrs.frozen(kw_only=True)
class EpisodePlayer:
    """What one worker needs to play an episode; travels to its process.

    Attributes:
        make_env: a batch of one environment.
        make_policy: seed -> policy.
        deterministic: take modes instead of samples.
        max_steps: cut episodes after so many steps; None: never.
        video_dir: write the frames of every episode here; `make_env` gives a `FilmedEnv` that keeps them.
        event_rows: keep every event, not the statistics alone.
        profile: measure where the time goes.
    """

    make_env: Callable[[], VectorEnv]
    make_policy: Callable[[int], Policy]
    deterministic: bool = True
    max_steps: int | None = None
    video_dir: Path | None = None
    event_rows: bool = False
    profile: bool = False

    def __call__(self, _context: ActorContext) -> EpisodeActor:
        return EpisodeActor(self)


class EpisodeActor:
    """Plays one episode a call; builds its environment when it needs one, and anew after a failure."""

    def __init__(self, player: EpisodePlayer) -> None:
        self._player = player
        self._env: VectorEnv | None = None
        self._policy: Policy | None = None
        self._shown = False
        self._observer = EpisodeObserver(event_rows=player.event_rows, profile=player.profile)

    def play(self, index: int, seed: int) -> EpisodeResult:
        """Play the episode with this seed; whatever the environment or the policy raises becomes its error.

        Raises:
            RequestError: environment or policy cannot be built as was asked, so that no episode can be played.
        """
        built = False
        try:
            env, policy = self._build(seed)
            built = True
            return self._play(env, policy, index, seed)
        except Exception as error:
            self._discard_env()
            if isinstance(error, RequestError) and not built:
                raise
            cause = error if isinstance(error, MazeError) else None
            text = f"{type(error).__name__}: {error}" if cause is None else cause.what
            return _failed(seed, text, traceback_of(error), cause)

    def _build(self, seed: int) -> tuple[VectorEnv, Policy]:
        player = self._player
        if self._env is None:
            self._env = player.make_env()
            self._observer.watch_env(self._env)
            self._shown = False
        if self._policy is None:
            self._policy = player.make_policy(policy_seed(seed))
            self._observer.watch_policy(self._policy)
        if not self._shown and isinstance(self._policy, WatchesEnvs):
            self._policy.watch_envs(played_envs(self._env))
            self._shown = True
        return self._env, self._policy

    def _play(self, env: VectorEnv, policy: Policy, index: int, seed: int) -> EpisodeResult:
        player = self._player
        seed_policy(policy, seed)
        (result,) = run_episodes(env, policy, [seed], deterministic=player.deterministic, max_steps=player.max_steps)
        frames = self._observer.frames()
        if player.video_dir is not None:
            write_video(player.video_dir / f"episode-{index + 1:04d}-seed-{seed}", frames, FRAMES_PER_SECOND)
        return self._observer.with_observations(result)

    def _discard_env(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:  # it has failed already, and the episode says why
                return

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()


def play_episodes(
    pool: WorkerPool,
    player: EpisodePlayer,
    seeds: Sequence[int],
    *,
    on_result: Callable[[EpisodeResult], None] = lambda _result: None,
) -> list[EpisodeResult]:
    """Play one episode a seed on the pool; results in the order of the seeds.

    Args:
        pool: runs as many episodes at a time as it has workers.
        player: travels to every worker.
        seeds: one an episode.
        on_result: called after each episode, in the order in which they finish.

    Raises:
        RequestError: environment or policy cannot be built as was asked.
    """
    if not seeds:
        return []
    n_actors = min(pool.n_workers, len(seeds))
    restart = RestartPolicy(max_restarts=len(seeds), backoff_seconds=0.1)
    group = pool.spawn(player, n_actors, GroupOptions(restart=restart))
    try:
        return _dispatch(group, seeds, on_result)
    finally:
        group.close()


def _dispatch(
    group: ActorGroup, seeds: Sequence[int], on_result: Callable[[EpisodeResult], None]
) -> list[EpisodeResult]:
    results: dict[int, EpisodeResult] = {}
    waiting = list(range(len(seeds)))
    running: dict[Future, int] = {}
    for actor in range(group.n_actors):
        index = waiting.pop(0)
        running[group.call(actor, "play", index, seeds[index])] = index
    while running:
        for future in group.wait_any(list(running)):
            index = running.pop(future)
            try:
                results[index] = future.result()
            except WorkerError as error:
                results[index] = _failed(seeds[index], error.what, error.remote_traceback, error)
            on_result(results[index])
            if waiting:
                following = waiting.pop(0)
                running[group.call(future.actor_index, "play", following, seeds[following])] = following
    return [results[index] for index in range(len(seeds))]


def _failed(seed: int, error: str, traceback: str | None, cause: MazeError | None) -> EpisodeResult:
    return EpisodeResult(
        seed=seed,
        total_reward=np.nan,
        length=0,
        terminated=False,
        truncated=False,
        error=error,
        traceback=traceback or None,
        cause=cause,
    )


def summarize(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Counts, and the distribution of reward and length over the episodes that did not fail."""
    played = [result for result in results if result.error is None]
    return {
        "n_episodes": len(results),
        "n_failed": len(results) - len(played),
        "reward": describe_sample([result.total_reward for result in played]),
        "length": describe_sample([result.length for result in played]),
    }


def summarize_events(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Event statistics over the episodes that ended, by tag; figures stay the values they would show."""
    epoch = EpochAggregator()
    epoch.add_episodes(result.events for result in results if result.events)
    return epoch.reduce(draw=False)


def summarize_seconds(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Shares of the time of all episodes by section, the largest first."""
    total: dict[str, float] = {}
    for result in results:
        for section, seconds in (result.seconds or {}).items():
            total[section] = total.get(section, 0.0) + seconds
    return shares(total)


def describe_sample(values: Sequence[float]) -> dict[str, float] | None:
    """Mean, population standard deviation, minimum, maximum, median and interquartile mean; None without values.

    The interquartile mean leaves out a quarter of the values, rounded down, at either end.
    """
    if not values:
        return None
    ordered = np.sort(np.asarray(values, np.float64))
    cut = len(ordered) // 4
    return {
        "mean": float(ordered.mean()),
        "std": float(ordered.std()),
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        "median": float(np.median(ordered)),
        "iqm": float(ordered[cut : len(ordered) - cut].mean()),
    }
