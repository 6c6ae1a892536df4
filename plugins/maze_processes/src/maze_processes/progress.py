"""What each environment of a batch is doing: a table in shared memory, written where environments live.

`watched` writes it in a worker, `BatchProgress` reads it in the caller, who can so name an environment whose process
died and say which seeds come next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maze_kernel.contracts.env import Action, ActorID, Observation, StructuredEnv
from maze_kernel.contracts.workers import ArraySpec

EnvFactory = Callable[[], StructuredEnv]

PHASES = ("waiting", "constructor", "reset", "step", "close")
PHASE, EPISODE, SEED, STEP = range(4)

PROGRESS = "progress"
"""Shared array (N, 4) int64: index into `PHASES`, episode from 0 (−1: none yet), seed (−1: none), steps taken."""


def progress_spec(n_envs: int) -> ArraySpec:
    """The array `PROGRESS` of n environments."""
    return ArraySpec(shape=(n_envs, 4), dtype="int64")


class BatchProgress:
    """The table as the caller sees it, worker by worker.

    Args:
        rows: the array `PROGRESS`; None: the workers share no memory.
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.
    """

    def __init__(self, rows: np.ndarray | None, bounds: Sequence[int]) -> None:
        self._rows = rows
        self._bounds = bounds

    def begin(self) -> None:
        """New episodes are about to begin everywhere."""
        if self._rows is not None:
            self._rows[:, EPISODE] = -1

    def describe(self, worker: int) -> str:
        """What the first busy environment of a worker is doing, or which environments it has."""
        first, last = self._bounds[worker], self._bounds[worker + 1]
        if self._rows is None:
            return f"environments {first} to {last - 1}"
        return _describe(self._rows[first:last], first)

    def seed_of(self, worker: int) -> int | None:
        """The seed that the first busy environment of a worker plays."""
        if self._rows is None:
            return None
        rows = self._rows[self._bounds[worker] : self._bounds[worker + 1]]
        busy = rows[rows[:, PHASE] != 0]
        return int(busy[0, SEED]) if len(busy) and busy[0, SEED] >= 0 else None

    def next_seeds(self, index: int, seeds: list[int]) -> list[int]:
        """Seeds for the episodes after the one that environment `index` is in, which began with `seeds`."""
        assert self._rows is not None
        episode = int(self._rows[index, EPISODE])
        if seeds[episode + 1 :] or not seeds:
            return seeds[episode + 1 :]
        words = np.random.SeedSequence((seeds[-1], episode + 1)).generate_state(1)
        return [int(words[0]) >> 1]


def watched(factory: EnvFactory, row: np.ndarray) -> EnvFactory:
    """The factory of an environment that keeps `row` (4,) of `PROGRESS` up to date."""

    def build() -> StructuredEnv:
        row[EPISODE], row[SEED], row[STEP] = -1, -1, 0
        row[PHASE] = PHASES.index("constructor")
        env = _Watched(factory(), row)
        row[PHASE] = 0
        return env

    return build


class _Watched:
    """An environment that notes in shared memory what it is doing."""

    def __init__(self, env: StructuredEnv, row: np.ndarray) -> None:
        self.env = env
        self._row: Any = memoryview(row.data)
        self._steps = 0
        self.structured_spaces = env.structured_spaces
        self.actor_id: Callable[[], ActorID] = env.actor_id
        self.is_actor_done: Callable[[], bool] = env.is_actor_done
        self.is_flat_step_end: Callable[[], bool] = env.is_flat_step_end
        self.get_actor_rewards: Callable[[], Any | None] = env.get_actor_rewards
        self.render: Callable[[], Any] = env.render

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        row = self._row
        self._steps = 0
        row[EPISODE] += 1
        row[SEED], row[STEP], row[PHASE] = -1 if seed is None else seed, 0, 2
        result = self.env.reset(seed=seed, options=options)
        row[PHASE] = 0
        return result

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        row = self._row
        self._steps += 1
        row[STEP] = self._steps
        row[PHASE] = 3
        result = self.env.step(action)
        row[PHASE] = 0
        return result

    def close(self) -> None:
        self._row[PHASE] = 4
        self.env.close()
        self._row[PHASE] = 0


def _describe(rows: np.ndarray, first: int) -> str:
    """What the first environment that is busy is doing, from rows of `PROGRESS` that begin with environment `first`."""
    busy = np.flatnonzero(rows[:, PHASE])
    if not busy.size:
        return f"environments {first} to {first + len(rows) - 1}, between calls"
    row = rows[busy[0]]
    place = f"environment {first + int(busy[0])}, in its {PHASES[row[PHASE]]}"
    if row[EPISODE] < 0:
        return f"{place}, before its first episode"
    seed = f"seed {row[SEED]}" if row[SEED] >= 0 else "unseeded"
    return f"{place}, episode {row[EPISODE]} ({seed}), step {row[STEP]}"
