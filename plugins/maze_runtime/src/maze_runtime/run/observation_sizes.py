"""How large the numbers are that a policy sees: networks learn best from numbers of about 1."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Tick
from maze_runtime.rollout.policy_seeds import policy_seed
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.batch_factory import wrap_batch

LARGE = 10.0
"""Numbers above it are told of, and scaled in files that are written for an environment."""


class ObservationSizes:
    """Adds up what ticks show.

    Args:
        seen: the spaces of those who see it.
    """

    def __init__(self, seen: StructuredSpaces) -> None:
        several = len(seen.policy_keys) > 1
        self._names = {
            (key, name): f"{name!r} of policy key {key!r}" if several else repr(name)
            for key, observation in seen.observation.items()
            for name, space in observation.spaces.items()
            if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        }
        self._squares: dict[Any, Any] = dict.fromkeys(self._names, 0.0)
        self._counts = dict.fromkeys(self._names, 0)

    def add(self, tick: Tick) -> None:
        """Count what those see who decide next."""
        for key, name in self._names:
            if key in tick.groups:
                rows = np.asarray(tick.groups[key].observation[name], np.float64)
                self._squares[key, name] = self._squares[key, name] + np.square(rows).sum(axis=0)
                self._counts[key, name] += len(rows)

    def found(self) -> dict[str, float]:
        """Name of an observation of numbers to the root mean square of its largest one; of what was seen alone."""
        return {
            self._names[which]: float(np.sqrt(np.max(squares) / self._counts[which]))
            for which, squares in self._squares.items()
            if self._counts[which]
        }


def sizes_of(assembly: Assembly, n_steps: int) -> dict[str, float]:
    """`ObservationSizes.found` of random decisions in one environment inside its wrappers.

    Args:
        assembly: of the experiment; its transforms are bound.
        n_steps: decisions.

    Raises:
        MazeError: the environment cannot be built or raises.
    """
    batch = SequentialVectorEnv([assembly.env_factory(writes_files=False)])
    with closing(wrap_batch(batch, assembly.transforms, training=True)) as played:
        sizes = ObservationSizes(played.structured_spaces)
        play_at_random(played, n_steps, seed=0, see=sizes.add)
    return sizes.found()


def play_at_random(vector_env: Any, n_steps: int, *, seed: int, see: Callable[[Tick], None]) -> None:
    """Random decisions from a seeded reset on; `see` is called with every tick, that of the reset first."""
    policy = RandomPolicy(PolicyContext(spaces=vector_env.structured_spaces, seed=policy_seed(seed)))
    tick = vector_env.reset([[seed + index] for index in range(vector_env.n_envs)])
    see(tick)
    for _ in range(n_steps):
        tick = vector_env.step({key: policy.act(key, group) for key, group in tick.groups.items()})
        see(tick)
