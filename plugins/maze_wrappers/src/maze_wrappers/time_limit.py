"""Episodes cut off after a number of environment steps."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.options import TimeLimitOptions
from maze_wrappers.whole_games import refuse_whole_games


class TimeLimit(EnvWrapper):
    """Sets `truncated` once `max_episode_steps` flat steps are done; a flat step is never cut in the middle.

    An env wrapper: it rules out natively vectorised environments. A Gymnasium environment's own option
    `max_episode_steps` does not.

    Raises:
        RequestError: a whole game is one flat step.
    """

    def __init__(self, env: StructuredEnv, options: TimeLimitOptions) -> None:
        super().__init__(env)
        refuse_whole_games(env.structured_spaces, "maze-wrappers: time-limit")
        self.options = options
        self._n_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._n_steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.env.is_flat_step_end():
            self._n_steps += 1
            if 0 < self.options.max_episode_steps <= self._n_steps:
                truncated = True
        return observation, reward, terminated, truncated, info

    def clone_from(self, other: TimeLimit) -> None:
        """Go on from where another one is, with as many steps left."""
        super().clone_from(other)
        self._n_steps = other._n_steps
