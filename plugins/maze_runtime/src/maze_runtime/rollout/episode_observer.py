"""What a rollout keeps of an episode beside its reward: event statistics, the events themselves, a time profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import attrs
import numpy as np

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.env import StructuredEnv
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import VectorEnv
from maze_runtime.env.profiling import Stopwatch, profile_batch
from maze_runtime.env.simulation import KeepsEventLogs
from maze_runtime.events.log_files import event_rows
from maze_runtime.rollout.cut_env import CutEnv
from maze_runtime.rollout.episodes import EpisodeResult
from maze_runtime.rollout.step_log import StepLog
from maze_runtime.rollout.video import FilmedEnv


class EpisodeObserver:
    """Watches a batch of one environment, and the policy that plays in it.

    Args:
        event_rows: keep every event.
        profile: measure time; the policy's own is the section "policy".
    """

    def __init__(self, *, event_rows: bool, profile: bool) -> None:
        self._event_rows = event_rows
        self._stopwatch = Stopwatch() if profile else None
        self._statistics: ReportsBatchStatistics | None = None
        self._logs: KeepsEventLogs | None = None
        self._steps: StepLog | None = None
        self._film: FilmedEnv | None = None
        self._cut: CutEnv | None = None

    def watch_env(self, vector_env: VectorEnv) -> None:
        """From now on it is this batch."""
        self._statistics = capability(vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
        self._logs = _event_logs(vector_env) if self._event_rows else None
        if self._logs is not None:
            self._logs.keep_event_logs()
        env = next(iter(envs_of(vector_env)), None)
        self._steps, self._film, self._cut = _layer(env, StepLog), _layer(env, FilmedEnv), _layer(env, CutEnv)
        if self._stopwatch is not None:
            profile_batch(vector_env, self._stopwatch)

    def watch_policy(self, policy: Policy) -> None:
        """Time this policy, if anything is timed."""
        if self._stopwatch is not None:
            self._stopwatch.watch("policy", policy, "act")

    def frames(self) -> list[np.ndarray]:
        """Those of the episode that was just played; none where it was not filmed."""
        return [] if self._film is None else self._film.take()

    def with_observations(self, result: EpisodeResult) -> EpisodeResult:
        """The result of the episode that was just played with what was kept of it."""
        episodes = [] if self._statistics is None else self._statistics.drain_batch_statistics()[0]
        logs = [] if self._logs is None else self._logs.drain_event_logs()
        rows = [] if self._steps is None else self._steps.take()
        return attrs.evolve(
            result,
            truncated=result.truncated and not (self._cut is not None and self._cut.was_cut),
            events=episodes[0] if episodes else None,
            event_rows=event_rows(logs[0]) if logs else rows or None,
            seconds=None if self._stopwatch is None else self._stopwatch.drain(),
        )


LayerT = TypeVar("LayerT")


def _layer(env: Any, kind: type[LayerT]) -> LayerT | None:
    while env is not None and not isinstance(env, kind):
        env = getattr(env, "env", None)
    return env


def played_envs(vector_env: Any) -> list[StructuredEnv]:
    """The environments of a batch as the experiment builds them, inside of what cuts, films and logs them."""
    played: list[Any] = list(envs_of(vector_env))
    for index, env in enumerate(played):
        while isinstance(env, (CutEnv, FilmedEnv, StepLog)):
            env = env.env
        played[index] = env
    return played


def envs_of(vector_env: Any) -> Sequence[StructuredEnv]:
    """The environments of a batch in this process, inside of the transforms of the batch; none where it has none."""
    layer = vector_env
    while layer is not None and not hasattr(layer, "envs"):
        layer = getattr(layer, "vector_env", None)
    return () if layer is None else layer.envs


def _event_logs(vector_env: Any) -> KeepsEventLogs | None:
    """What keeps the events of the first environment of a batch in this process."""
    envs = envs_of(vector_env)
    return capability(envs[0], KeepsEventLogs) if envs else None  # type: ignore[type-abstract]
