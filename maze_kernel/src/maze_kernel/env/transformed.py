"""One environment inside a transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.env.contract import Action, Observation, StructuredEnv
from maze_kernel.env.transform import Transform
from maze_kernel.env.wrapper import EnvWrapper


class TransformedEnv(EnvWrapper):
    """A `StructuredEnv` whose observations, actions and rewards pass through a transform.

    Used where a transform stands inside an env wrapper; transforms outside of all env wrappers are applied to
    the whole batch. While `transform.training` is true its running statistics see every step.

    Args:
        training: False: rewards stay the environment's own, as evaluations and rollouts report them.

    Attributes:
        transforms: those of this environment, innermost first.
    """

    def __init__(self, env: StructuredEnv, transform: Transform, training: bool = True) -> None:
        super().__init__(env)
        self._shapes_reward = training
        self.transform = transform
        self.structured_spaces = transform.bind(env.structured_spaces)
        self.transforms: list[Transform] = [*getattr(env, "transforms", ()), transform]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        key = self.env.actor_id().step_key
        if self.transform.training:
            self.transform.observe_reset({key: _batch_of_one(observation)}, 1)
        return self.transform.observation(key, observation), info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        inner = self.transform.action(self.env.actor_id().step_key, action)
        observation, reward, terminated, truncated, info = self.env.step(inner)
        key, array = self.env.actor_id().step_key, np.asarray(reward, np.float64).reshape(())
        if self.transform.training:
            ended = np.array([bool(terminated or truncated)])
            self.transform.observe_step({key: _batch_of_one(observation)}, array[None], ended)
        outer_reward = float(self.transform.reward(array) if self._shapes_reward else array)
        return self.transform.observation(key, observation), outer_reward, terminated, truncated, info

    def get_actor_rewards(self) -> Any | None:
        """The wrapped environment's, transformed."""
        rewards = self.env.get_actor_rewards()
        if rewards is None or not self._shapes_reward:
            return rewards
        return self.transform.reward(np.asarray(rewards))


def _batch_of_one(observation: Observation) -> dict[str, np.ndarray]:
    return {key: np.asarray(value)[None] for key, value in observation.items()}
