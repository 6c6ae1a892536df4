"""Episodes that end with the loss of a life."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.counted_lives import first_number_in, number_in
from maze_wrappers.options import LifeLossOptions
from maze_wrappers.whole_games import refuse_whole_games

_OWNER = "maze-wrappers: life-loss"


class LifeLoss(EnvWrapper):
    """Sets `terminated` where a number in `info` has fallen at the end of a flat step.

    With `go_on` the next episode begins where the life was lost, unless the game was over or a seed is given. Mnih et
    al., "Human-level control through deep reinforcement learning", 2015, Methods.

    Raises:
        RequestError: a whole game is one flat step; from `reset`, where `info` holds no such number, or from `step`,
            where that of the reset is empty.
    """

    def __init__(self, env: StructuredEnv, options: LifeLossOptions) -> None:
        super().__init__(env)
        refuse_whole_games(env.structured_spaces, _OWNER)
        self.options = options
        self._lives: int | None = None
        self._left: tuple[Observation, dict[str, Any]] | None = None
        """Observation and info of a game that goes on."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a game, or go on with the one in which a life was lost."""
        left, self._left = self._left, None
        if left is not None and seed is None and options is None:
            return left
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = first_number_in(info, self.options.key, _OWNER)
        return observation, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.env.is_flat_step_end() and not (terminated or truncated):
            lives = number_in(info, self.options.key, _OWNER)
            terminated, self._lives = self._lives is not None and lives < self._lives, lives
            if terminated and self.options.go_on:
                self._left = ({name: np.copy(value)[()] for name, value in observation.items()}, info)
        return observation, reward, terminated, truncated, info

    def clone_from(self, other: LifeLoss) -> None:
        """Go on from where another one is, with as many lives."""
        super().clone_from(other)
        self._lives, self._left = other._lives, other._left
