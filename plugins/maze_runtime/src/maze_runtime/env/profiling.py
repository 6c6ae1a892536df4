"""Where the time of an environment goes: simulation, conversions, each wrapper.

Profiling replaces methods of the objects it looks at by timed ones, so it is for environments that are made for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.transformed import TransformedEnv


class Stopwatch:
    """Seconds spent in named sections, each without those of the sections inside it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._inside = [0.0]

    def watch(self, section: str, owner: Any, *methods: str) -> None:
        """Time these methods of an object from now on."""
        for method in methods:
            setattr(owner, method, self.timed(section, getattr(owner, method)))

    def timed(self, section: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted for a section."""
        self._seconds.setdefault(section, 0.0)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = time.perf_counter() - start
                self._seconds[section] += elapsed - self._inside.pop()
                self._inside[-1] += elapsed

        return call

    def drain(self) -> dict[str, float]:
        """Seconds by section since the last call, in the order in which sections were first watched."""
        drained = dict(self._seconds)
        self._seconds = dict.fromkeys(drained, 0.0)
        return drained


def profile_batch(vector_env: Any, stopwatch: Stopwatch) -> None:
    """Time a batch in this process: its transforms, the wrappers of its environments, and these themselves."""
    layer = vector_env
    while layer is not None:
        transform = getattr(layer, "transform", None)
        section = "batching" if transform is None else _section(transform)
        stopwatch.watch(section, layer, "step", "reset")
        for env in getattr(layer, "envs", ()):
            profile_env(env, stopwatch)
        layer = getattr(layer, "vector_env", None)


def profile_env(env: Any, stopwatch: Stopwatch) -> None:
    """Time one environment and its wrappers."""
    while hasattr(inner := getattr(env, "env", None), "structured_spaces"):
        owner = env.transform if isinstance(env, TransformedEnv) else env
        stopwatch.watch(_section(owner), env, "step", "reset")
        env = inner
    if isinstance(env, MazeEnv):
        _profile_maze_env(env, stopwatch)
    else:
        stopwatch.watch("environment", env, "step", "reset")


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds as parts of 1, the largest first; empty where no time has passed."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {section: value / total for section, value in ordered} if total else {}


def _profile_maze_env(env: MazeEnv, stopwatch: Stopwatch) -> None:
    stopwatch.watch("core env", env.core_env, "step", "reset")
    for section, parts, method in (
        ("observation conversion", env.observation_conversions, "maze_to_space"),
        ("action conversion", env.action_conversions, "space_to_maze"),
    ):
        # One conversion may serve several policy keys.
        for part in {id(part): part for part in parts.values()}.values():
            stopwatch.watch(section, part, method)
    if env.reward_aggregator is not None:
        stopwatch.watch("reward aggregator", env.reward_aggregator, "summarize_reward")
    stopwatch.watch("maze env and events", env, "step", "reset")


def _section(owner: object) -> str:
    """`ObservationNormalization` as `observation-normalization`, the name of its component."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(owner).__name__).lower()
