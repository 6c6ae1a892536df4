"""Whether an environment follows its seed: two of them, seeded and stepped alike, show and pay the same."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from maze_kernel.contracts.model import PolicyContext
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from maze_kernel.contracts.env import StructuredEnv
    from maze_kernel.contracts.vector import Tick

MOST_STEPS = 200
"""Of the first episode; what is drawn elsewhere mostly shows at once."""


def first_difference(env_factory: Callable[[], StructuredEnv], seed: int, n_steps: int) -> str | None:
    """What two environments first show or pay differently, and when; None: nothing.

    Args:
        env_factory: builds an environment.
        seed: of the episode and of the actions.
        n_steps: decisions at most.
    """
    with closing(SequentialVectorEnv([env_factory, env_factory])) as batch:
        policy = RandomPolicy(PolicyContext(spaces=batch.structured_spaces, seed=seed))
        tick = batch.reset([[seed], [seed]])
        for step in range(min(n_steps, MOST_STEPS) + 1):
            if what := _difference(tick):
                return f"{what} at step {step}" if step else f"{what} of reset"
            if (tick.terminated | tick.truncated).any():
                return None
            acted = {key: policy.act(key, group) for key, group in tick.groups.items()}
            tick = batch.step(
                {key: {name: _first_twice(rows) for name, rows in own.items()} for key, own in acted.items()}
            )
    return None


def _difference(tick: Tick) -> str | None:
    for name in ("reward", "terminated", "truncated"):
        if not _is_same(getattr(tick, name)):
            return name
    if any(len(group.env_index) == 1 or not _is_same(group.agent_id) for group in tick.groups.values()):
        return "who decides"
    shown: list[Mapping[str, np.ndarray]] = [group.observation for group in tick.groups.values()]
    if (tick.terminated | tick.truncated).any():  # groups belong to the next episode, which has no seed
        shown = [final.observation for final in tick.final_observation.values()]
    different = (name for observation in shown for name, rows in observation.items() if not _is_same(rows))
    return next((f"the observation {name!r}" for name in different), None)


def _is_same(rows: np.ndarray) -> bool:
    return len(rows) == 2 and np.array_equal(rows[0], rows[1], equal_nan=rows.dtype.kind == "f")


def _first_twice(rows: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(rows)[:1], 2, axis=0)
