"""A counting environment, single and batched, whose every episode is known beforehand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

ENDS = (("terminated", 3), ("truncated", 2), ("terminated", 1), ("truncated", 4))
"""How successive episodes end, and after how many steps; an environment starts at its own place in the list."""


class Counting(gymnasium.Env):
    """Observation (start, episode, step); reward = 100 episode + 10 step + action."""

    def __init__(self, start: int = 0, reuse: bool = True) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._start, self._episode, self._step = start, -1, 0
        self._shared = np.zeros(3, np.float32)
        self._reuse = reuse

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self._step += 1
        how, length = ENDS[(self._start + self._episode) % len(ENDS)]
        over = self._step == length
        assert self._step <= length, "stepped past the end of an episode"
        reward = 100.0 * self._episode + 10 * self._step + int(action)
        return self._observation(), reward, over and how == "terminated", over and how == "truncated", {}

    def _observation(self) -> np.ndarray:
        self._shared[:] = self._start, self._episode, self._step
        # Reused on purpose: whoever keeps it must copy. Gymnasium's SAME_STEP final_obs does not, so it gets copies.
        return self._shared if self._reuse else self._shared.copy()


class CountingBatch(VectorEnv):
    """N counting environments, batched by hand, in any autoreset mode."""

    def __init__(self, n_envs: int, mode: AutoresetMode) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.num_envs = n_envs
        self._envs = [Counting(index) for index in range(n_envs)]
        self._mode = mode
        self._over = np.zeros(n_envs, bool)
        self.single_observation_space = self._envs[0].observation_space
        self.single_action_space = self._envs[0].action_space
        self._observations = np.zeros((n_envs, 3), np.float32)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for index in np.flatnonzero(mask):
            self._observations[index] = self._envs[index].reset()[0]
        self._over[mask] = False
        return self._observations, {}

    def step(self, actions):
        reward, flags, infos = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool), {}
        for index, env in enumerate(self._envs):
            if self._over[index]:
                assert self._mode is AutoresetMode.NEXT_STEP
                self._observations[index] = env.reset()[0]
                self._over[index] = False
                # What a void step reports must not matter.
                reward[index] = 777.0
                continue
            observation, reward[index], flags[0, index], flags[1, index], _ = env.step(actions[index])
            if flags[:, index].any():
                self._over[index] = self._mode is not AutoresetMode.SAME_STEP
                if self._mode is AutoresetMode.SAME_STEP:
                    infos = self._add_info(infos, {"final_obs": observation.copy()}, index)
                    observation = env.reset()[0]
            self._observations[index] = observation
        return self._observations, reward, flags[0], flags[1], infos
