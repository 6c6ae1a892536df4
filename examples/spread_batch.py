"""Many games in one: three agents spread over three landmarks, all games moved by a few NumPy operations.

The rules and numbers are those of mpe2's simple_spread_v3: what an agent sees, how it moves, pushes and is paid.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

DIRECTIONS = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], float)
"""Of the five actions."""
SECONDS, DRAG, FORCE = 0.1, 0.25, 5.0
CONTACT, SOFTNESS, DISTANCE = 100.0, 1e-3, 0.3
"""Agents push each other where their centres are nearer than this."""


class Spread:
    """N games; an agent sees its speed, its place, and where landmarks and others are from there."""

    def __init__(self, num_envs: int, n_agents: int = 3, max_cycles: int = 25):
        self.num_envs, self.max_cycles = num_envs, max_cycles
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.possible_agents = [f"agent_{index}" for index in range(n_agents)]
        self.n_seen = 4 + 2 * n_agents + 4 * (n_agents - 1)  # the last 2 (n − 1) are words, which nobody says here
        others = [[b for b in range(n_agents) if b != a] for a in range(n_agents)]
        self.pairs = np.arange(n_agents)[:, None], np.array(others, int)
        self.place, self.speed, self.landmarks = np.zeros((3, num_envs, n_agents, 2))
        self.time = np.zeros(num_envs, int)
        self.rng = np.random.default_rng()

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (self.n_seen,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        rows = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        shape = (int(rows.sum()), *self.place.shape[1:])
        self.place[rows], self.landmarks[rows] = self.rng.uniform(-1, 1, shape), self.rng.uniform(-1, 1, shape)
        self.speed[rows] = 0
        self.time[rows] = 0
        self.measure()
        return self.observations(), {}

    def step(self, actions):
        push = FORCE * DIRECTIONS[np.stack([actions[agent] for agent in self.possible_agents], axis=1)]
        depth = SOFTNESS * np.logaddexp(0, (DISTANCE - self.apart) / SOFTNESS)
        push += ((CONTACT * depth / self.apart)[..., None] * self.between).sum(axis=2)
        self.place += SECONDS * self.speed
        self.speed = (1 - DRAG) * self.speed + SECONDS * push
        self.time += 1
        self.measure()
        reached = np.sqrt(((self.landmarks[:, :, None] - self.place[:, None]) ** 2).sum(axis=-1)).min(axis=2)
        bumped = (self.apart < DISTANCE).sum(axis=2)
        reward = -0.5 * reached.sum(axis=1, keepdims=True) - 0.5 * bumped
        rewards = {agent: reward[:, index] for index, agent in enumerate(self.possible_agents)}
        never = np.zeros(self.num_envs, bool)
        return self.observations(), rewards, never, self.time == self.max_cycles, {}

    def measure(self):
        """Vectors from each agent to each, and their lengths."""
        self.between = self.place[:, :, None] - self.place[:, None]
        self.apart = np.sqrt((self.between**2).sum(axis=-1))
        index = np.arange(len(self.possible_agents))
        self.apart[:, index, index] = np.inf

    def observations(self):
        n_envs, n_agents = self.place.shape[:2]
        seen = np.zeros((n_agents, n_envs, self.n_seen), np.float32)
        seen[..., 0:2] = self.speed.swapaxes(0, 1)
        seen[..., 2:4] = self.place.swapaxes(0, 1)
        landmarks = (self.landmarks[:, None] - self.place[:, :, None]).swapaxes(0, 1)
        seen[..., 4 : 4 + 2 * n_agents] = landmarks.reshape(n_agents, n_envs, -1)
        a, others = self.pairs
        towards = -self.between[:, a, others].swapaxes(0, 1)
        seen[..., 4 + 2 * n_agents : 2 + 4 * n_agents] = towards.reshape(n_agents, n_envs, -1)
        return dict(zip(self.possible_agents, seen, strict=True))
