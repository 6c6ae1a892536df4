"""Environments for the wrappers' tests."""

import copy

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.loader import Kernel
from maze_runtime.env.flat import FlatEnv, flat_spaces

OBSERVATION = spaces.Dict(
    image=spaces.Box(0, 255, (6, 5, 3), np.uint8),
    vector=spaces.Box(np.array([-1, 0, -2], np.float32), np.array([1, 5, np.inf], np.float32)),
    gear=spaces.Discrete(4),
    dials=spaces.MultiDiscrete([2, 3]),
    pick_mask=spaces.MultiBinary(3),
)
ACTION = spaces.Dict(
    steer=spaces.Box(np.array([-1, 0, -3], np.float32), np.array([1, 2, 3], np.float32)),
    pick=spaces.Discrete(3),
    levers=spaces.MultiDiscrete([2, 3, 4]),
    lamps=spaces.MultiBinary(3),
)


class Machine(FlatEnv):
    """Something of everything: random observations, rewards that depend on the action, three to six steps."""

    structured_spaces = flat_spaces(OBSERVATION, ACTION)

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._left = int(self._rng.integers(3, 7))
        return self._observe(), {}

    def step(self, action):
        assert set(action) == set(self.structured_spaces.action["0"].spaces)
        self._left -= 1
        reward = float(self._rng.normal()) + sum(float(np.sum(value)) for value in action.values())
        return self._observe(), reward, self._left == 0, False, {}

    def noop_action(self):
        return {
            "steer": np.zeros(3, np.float32),
            "pick": 0,
            "levers": np.zeros(3, np.int64),
            "lamps": np.zeros(3, np.int8),
        }

    def clone_from(self, other):
        self._rng, self._left = copy.deepcopy(other._rng), other._left

    def _observe(self):
        mask = self._rng.integers(0, 2, 3).astype(np.int8)
        mask[self._rng.integers(3)] = 1
        return {
            "image": self._rng.integers(0, 256, (6, 5, 3), dtype=np.uint8),
            "vector": self._rng.uniform([-1, 0, -2], [1, 5, 2]).astype(np.float32),
            "gear": int(self._rng.integers(4)),
            "dials": self._rng.integers(0, [2, 3]),
            "pick_mask": mask,
        }


class DiscreteMachine(Machine):
    """Without the continuous action."""

    structured_spaces = flat_spaces(
        OBSERVATION, spaces.Dict({head: space for head, space in ACTION.spaces.items() if head != "steer"})
    )

    def noop_action(self):
        return {head: value for head, value in super().noop_action().items() if head != "steer"}


@pytest.fixture(scope="session")
def kernel():
    return Kernel.installed()
