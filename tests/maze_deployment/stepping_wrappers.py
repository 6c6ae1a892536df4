"""Env wrappers that step as they please: what no queue of transforms can follow."""

import numpy as np

from maze_runtime.env.wrapper import EnvWrapper


class RepeatTwice(EnvWrapper):
    """Takes each action twice: one decision, two answers of the simulation."""

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            observation, more, terminated, truncated, info = self.env.step(action)
            reward += more
        return observation, reward, terminated, truncated, info


class RandomStart(EnvWrapper):
    """Begins with a random number of steps of its own."""

    def reset(self, *, seed=None, options=None):
        result = self.env.reset(seed=seed, options=options)
        for _ in range(np.random.default_rng(seed).integers(1, 4)):
            observation, _, _, _, info = self.env.step({"action": 0})
            result = observation, info
        return result
