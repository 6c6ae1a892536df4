"""An environment that shows images, for tests of what learns from them."""

import gymnasium
import numpy as np


class Film(gymnasium.Env):
    """Frames of noise; episodes of random length end or are cut."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *, shape=(36, 36)):
        self.observation_space = gymnasium.spaces.Box(0, 255, tuple(shape), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._frame(), {}

    def step(self, action):
        ends, cut = self.np_random.random(2) < 0.1
        return self._frame(), float(action), bool(ends), bool(cut), {}

    def _frame(self):
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)
