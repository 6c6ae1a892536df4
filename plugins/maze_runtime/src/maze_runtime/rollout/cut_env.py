"""Episodes that are cut while they are played; they end like any other, with statistics, KPIs and event files."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.rollout.rounds import Rounds


class CutEnv(EnvWrapper):
    """Truncates an episode after a number of flat steps, and remembers that it did.

    A game that is one flat step from beginning to end is cut after so many rounds, and its flat step ends there.

    Attributes:
        was_cut: whether the last episode that ended was cut here.
    """

    def __init__(self, env: StructuredEnv, max_steps: int) -> None:
        super().__init__(env)
        self.was_cut = False
        self._max_steps = max_steps
        self._n_steps = 0
        self._rounds = Rounds() if env.structured_spaces.pays_differences else None
        self._is_cut = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._n_steps, self._is_cut = 0, False
        if self._rounds is not None:
            self._rounds.begin()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        actor = self.env.actor_id()
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._rounds is None:
            self._n_steps += bool(self.env.is_flat_step_end())
        else:
            self._n_steps += self._rounds.is_over(actor, self.env.actor_id())
        if terminated or truncated:
            self.was_cut = False
        elif self._n_steps >= self._max_steps:
            self.was_cut = self._is_cut = truncated = True
        return observation, reward, terminated, truncated, info

    def is_flat_step_end(self) -> bool:
        """Whether the environment's flat step is over, or its episode was cut."""
        return self._is_cut or self.env.is_flat_step_end()
