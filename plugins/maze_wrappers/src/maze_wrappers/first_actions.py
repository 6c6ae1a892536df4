"""Episodes that begin with the same actions."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Action, Observation, PolicyKey, StructuredEnv
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.counted_lives import first_number_in, number_in
from maze_wrappers.given_actions import copied, given_actions
from maze_wrappers.left_out import leave_out
from maze_wrappers.options import FirstActionsOptions
from maze_wrappers.whole_games import refuse_whole_games

_OWNER = "maze-wrappers: first-actions"


class FirstActions(EnvWrapper):
    """Takes the given actions after every reset; they are no part of the episode, nor are their events.

    Should the episode end meanwhile, the environment is reset again and goes on with the next of them. With `key` it
    takes them after each lost life as well; there they belong to the step that lost it, their rewards to its reward.

    Raises:
        RequestError: one of them is no action of the environment, or a whole game is one flat step; from `reset`, where
            `info` holds no such number.
    """

    def __init__(self, env: StructuredEnv, options: FirstActionsOptions) -> None:
        super().__init__(env)
        refuse_whole_games(env.structured_spaces, _OWNER)
        self.options = options
        self._actions = [given_actions(env.structured_spaces, action, "actions", _OWNER) for action in options.actions]
        self._lives: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        for actions in self._actions:
            observation, _, terminated, truncated, info = self.env.step(self._chosen(actions))
            leave_out(self.env)
            if terminated or truncated:
                observation, info = self.env.reset(options=options)
        self._lives = first_number_in(info, self.options.key, _OWNER) if self.options.key else None
        return observation, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision, and the given ones where it lost a life."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not self.options.key or not self.env.is_flat_step_end() or terminated or truncated:
            return observation, reward, terminated, truncated, info
        before, self._lives, reward = self._lives, self._lives_in(info), scalar_reward(reward)
        for actions in self._actions if before is not None and self._lives < before else ():
            observation, paid, terminated, truncated, info = self.env.step(self._chosen(actions))
            reward += scalar_reward(paid)
            if terminated or truncated:
                break
            self._lives = self._lives_in(info)
        return observation, reward, terminated, truncated, info

    def clone_from(self, other: FirstActions) -> None:
        """Go on from where another one is, with as many lives."""
        super().clone_from(other)
        self._lives = other._lives

    def _chosen(self, actions: dict[PolicyKey, Action]) -> Action:
        return copied(actions[self.env.actor_id().step_key])

    def _lives_in(self, info: dict[str, Any]) -> int:
        return number_in(info, self.options.key, _OWNER)
