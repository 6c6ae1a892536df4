"""Many environments in one: rockets that have to hover, all of them moved by a few NumPy operations."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class Hover(VectorEnv):
    """Height and speed are seen, thrust is chosen; the nearer to height 0, the more reward; 100 steps an episode.

    An ended row starts again in the step that follows: its observation is the last one, then the first of the next.
    """

    def __init__(self, num_envs: int, gravity: float = 0.5):
        self.num_envs, self.gravity = num_envs, gravity
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.state = np.zeros((num_envs, 2), np.float32)
        self.time = np.zeros(num_envs, np.int64)
        self.ended = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._restart(np.ones(self.num_envs, np.bool_))
        self.ended[:] = False
        return self.state.copy(), {}

    def step(self, actions):
        started = self.ended
        height, speed = self.state.T
        speed = speed + 0.1 * (np.asarray(actions) - self.gravity - 0.5)
        self.state = np.stack([height + 0.1 * speed, speed], axis=1).astype(np.float32)
        self.time += 1
        reward = np.where(started, 0.0, np.exp(-np.abs(self.state[:, 0]))).astype(np.float32)
        self._restart(started)
        terminated = (np.abs(self.state[:, 0]) > 3.0) & ~started
        truncated = (self.time == 100) & ~terminated & ~started
        self.ended = terminated | truncated
        return self.state.copy(), reward, terminated, truncated, {}

    def _restart(self, rows):
        self.state[rows] = self.np_random.uniform(-1.0, 1.0, (int(rows.sum()), 2))
        self.time[rows] = 0
