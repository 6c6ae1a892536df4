"""Decisions that count for several steps of the environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.env.capabilities import HasNoop, capability
from maze_kernel.env.contract import Action, ActorID, Observation, StructuredEnv
from maze_kernel.env.wrapper import EnvWrapper
from maze_kernel.errors import EnvError
from maze_wrappers.options import StepSkipOptions

StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class StepSkip(EnvWrapper):
    """After each flat step n_steps − 1 further ones are taken with the same actions, or with those that do nothing.

    Rewards are summed. Skipping ends with the episode, and where an actor is asked that has not decided in this flat
    step.

    Raises:
        EnvError: from `step`, mode "noop", where the environment knows no action that changes nothing.
    """

    def __init__(self, env: StructuredEnv, options: StepSkipOptions) -> None:
        super().__init__(env)
        self.options = options
        self._decided: dict[ActorID, Action] = {}
        self._actor_rewards: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._decided = {}
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> StepResult:
        """Take one decision, and at the end of a flat step the skipped ones."""
        self._decided[self.env.actor_id()] = {head: np.copy(value) for head, value in action.items()}
        result = self.env.step(action)
        if not self.env.is_flat_step_end():
            return result
        self._actor_rewards = self.env.get_actor_rewards()
        for _ in range(self.options.n_steps - 1):
            if result[2] or result[3] or self.env.actor_id() not in self._decided:
                break
            result = self._skip(result)
        self._decided = {}
        return result

    def get_actor_rewards(self) -> Any | None:
        """Those of the first flat step and, where they have the same form, of the skipped ones."""
        return self._actor_rewards

    def clone_from(self, other: StepSkip) -> None:
        """Go on from where another one is."""
        super().clone_from(other)
        self._decided, self._actor_rewards = dict(other._decided), other._actor_rewards

    def _skip(self, result: StepResult) -> StepResult:
        """One more flat step, its rewards added to those of `result`."""
        observation, reward, terminated, truncated, info = result
        while True:
            actor = self.env.actor_id()
            if actor not in self._decided:
                return observation, reward, terminated, truncated, info
            observation, added, terminated, truncated, info = self.env.step(self._repeated(actor))
            reward += added
            if terminated or truncated or self.env.is_flat_step_end():
                self._add_actor_rewards(self.env.get_actor_rewards())
                return observation, reward, terminated, truncated, info

    def _add_actor_rewards(self, rewards: Any | None) -> None:
        if (
            self._actor_rewards is not None
            and rewards is not None
            and np.shape(rewards) == np.shape(self._actor_rewards)
        ):
            self._actor_rewards = np.asarray(self._actor_rewards) + np.asarray(rewards)

    def _repeated(self, actor: ActorID) -> Action:
        if self.options.mode == "sticky":
            return {head: np.copy(value)[()] for head, value in self._decided[actor].items()}
        if self.options.noop is not None:
            dtypes = {head: space.dtype for head, space in self.structured_spaces.action[actor.step_key].spaces.items()}
            return {head: np.asarray(value, dtypes[head])[()] for head, value in self.options.noop.items()}
        source = capability(self.env, HasNoop)  # type: ignore[type-abstract]
        if source is None:
            raise EnvError(
                "the environment knows no action that changes nothing",
                owner="maze-wrappers: step-skip",
                help='give it, e.g. noop = { action = 0 }, or take mode = "sticky"',
            )
        return source.noop_action()
