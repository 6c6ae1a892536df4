"""Episodes that begin with the same actions."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Observation, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.given_actions import copied, given_actions
from maze_wrappers.options import FirstActionsOptions


class FirstActions(EnvWrapper):
    """Takes the given actions after every reset; they are no part of the episode.

    Should the episode end meanwhile, the environment is reset again and goes on with the next of them.

    Raises:
        RequestError: one of them is no action of the environment.
    """

    def __init__(self, env: StructuredEnv, options: FirstActionsOptions) -> None:
        super().__init__(env)
        owner = "maze-wrappers: first-actions"
        self._actions = [given_actions(env.structured_spaces, action, "actions", owner) for action in options.actions]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        for actions in self._actions:
            action = copied(actions[self.env.actor_id().step_key])
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset(options=options)
        return observation, info
