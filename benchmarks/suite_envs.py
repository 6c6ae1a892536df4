"""Two small tasks, of Dict observations and of masked actions, and what the peer needs around MiniGrid."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Observation = dict[str, Any]


class Delivery(gymnasium.Env[Observation, np.ndarray]):
    """Carry a parcel to one of four corners around three walls.

    Observations: `position` (2,) in −1 … 1, `walls` (3, 2) centres of squares of side 0.3 that stop a move across or
    upwards, `corner` which one. Actions: MultiDiscrete([3, 3]), a tenth to the left, none or a tenth to the right;
    likewise upwards. A step costs a tenth of the distance and arriving pays 1; 60 steps.
    """

    observation_space = spaces.Dict(
        position=spaces.Box(-1, 1, (2,), np.float32),
        walls=spaces.Box(-1, 1, (3, 2), np.float32),
        corner=spaces.Discrete(4),
    )
    action_space = spaces.MultiDiscrete([3, 3])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._corner = int(self.np_random.integers(4))
        self._goal = np.array([0.9 if self._corner % 2 else -0.9, 0.9 if self._corner // 2 else -0.9])
        self._position = self.np_random.uniform(-0.1, 0.1, 2)
        angles = self.np_random.uniform(0, 2 * np.pi, 3)
        self._walls = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self._n_steps = 0
        return self._look(), {}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        for axis in (0, 1):
            there = self._position.copy()
            there[axis] = np.clip(there[axis] + 0.1 * (action[axis] - 1), -1.0, 1.0)
            if not (np.abs(self._walls - there) < 0.15).all(axis=1).any():
                self._position = there
        self._n_steps += 1
        distance = float(np.linalg.norm(self._goal - self._position))
        arrived = distance < 0.15
        return self._look(), float(arrived) - 0.1 * distance, arrived, self._n_steps >= 60, {}

    def _look(self) -> Observation:
        return {
            "position": self._position.astype(np.float32),
            "walls": self._walls.astype(np.float32),
            "corner": self._corner,
        }


class Parking(gymnasium.Env[np.ndarray, int]):
    """Put twelve cars on the free ones of fifty places, a third at the beginning; who is in a hurry wants to be near.

    Observations: fifty flags, 1 free; the hurry of the car, 0 … 1; the share of cars to come. A car costs its hurry
    times how far its place is, 0 … 1. Places that are taken are masked (`action_masks`).
    """

    observation_space = spaces.Box(0, 1, (52,), np.float32)
    action_space = spaces.Discrete(50)
    n_cars = 12

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._free = np.zeros(50, bool)
        self._free[self.np_random.choice(50, 17, replace=False)] = True
        self._hurries = self.np_random.random(self.n_cars)
        self._n_parked = 0
        return self._look(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self._free[action], "the place is taken"
        cost = float(self._hurries[self._n_parked] * action / 49)
        self._free[action] = False
        self._n_parked += 1
        return self._look(), -cost, self._n_parked == self.n_cars, False, {}

    def action_masks(self) -> np.ndarray:
        return self._free.copy()

    def _look(self) -> np.ndarray:
        left = self.n_cars - self._n_parked
        hurry = self._hurries[self._n_parked] if left else 0.0
        return np.array([*self._free, hurry, left / self.n_cars], np.float32)


class SameEpisode(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Every episode begins with the same seed, whatever `reset` is given."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self._seed = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=self._seed, options=options)


def flat_image(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """MiniGrid's view as one vector, as the peer's dense policies take it."""
    from minigrid.wrappers import ImgObsWrapper

    return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(env))
