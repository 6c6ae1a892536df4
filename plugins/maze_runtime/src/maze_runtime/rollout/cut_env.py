"""Episodes that are cut while they are played; they end like any other, with statistics, KPIs and event files."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper


class CutEnv(EnvWrapper):
    """Truncates an episode after a number of flat steps, and remembers that it did.

    Attributes:
        was_cut: whether the last episode that ended was cut here.
    """

    def __init__(self, env: StructuredEnv, max_steps: int) -> None:
        super().__init__(env)
        self.was_cut = False
        self._max_steps = max_steps
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
        self._n_steps += bool(self.env.is_flat_step_end())
        if terminated or truncated:
            self.was_cut = False
        elif self._n_steps >= self._max_steps:
            self.was_cut = truncated = True
        return observation, reward, terminated, truncated, info
