"""Cheap environments of the kinds of work that no well-known environment stands for."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

EPISODE_STEPS = 100


class _Short(gymnasium.Env[Any, Any]):
    """Episodes of a hundred steps."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._observation(), self._info()

    def _after(self, reward: float) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._observation(), reward, self._time == EPISODE_STEPS, False, self._info()

    def _observation(self) -> Any:
        raise NotImplementedError

    def _info(self) -> dict[str, Any]:
        return {}


class ManyKeys(_Short):
    """A vector, a matrix and a number are seen; choices of 3, 4 and 5 should be the number's remainders."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            vector=spaces.Box(-1.0, 1.0, (8,), np.float32),
            matrix=spaces.Box(-1.0, 1.0, (4, 6), np.float32),
            number=spaces.Discrete(10),
        )
        self.action_space = spaces.MultiDiscrete([3, 4, 5])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._after(float(sum(choice == self._number % n for choice, n in zip(action, (3, 4, 5), strict=True))))

    def _observation(self) -> Any:
        numbers = self.np_random.random(32, np.float32) * 2.0 - 1.0
        self._number = int(self.np_random.integers(10))
        return {"vector": numbers[:8], "matrix": numbers[8:].reshape(4, 6), "number": self._number}


class ManyKeysContinuous(ManyKeys):
    """The same observations; two numbers are chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._after(-float(np.abs(np.asarray(action) - self._number / 10).sum()))


class Masked(_Short):
    """One of fifty may be chosen; a third of them is allowed, anew at each step, and the lowest is paid best."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = spaces.Discrete(50)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._after(1.0 - float(action) / 50)

    def action_masks(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """What is allowed now, (50,)."""
        return self._mask

    def _observation(self) -> Any:
        self._mask = self.np_random.random(50) < 1 / 3
        self._mask[self.np_random.integers(50)] = True
        return self.np_random.random(8, np.float32) * 2.0 - 1.0

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._mask}


class Pictures(_Short):
    """Three planes of 64 × 64 grey bytes; a number is chosen, paid by the brightness it meets."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (3, 64, 64), np.uint8)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._after(-abs(float(action[0]) - self._brightness / 255))

    def _observation(self) -> Any:
        self._brightness = int(self.np_random.integers(255))
        return np.full((3, 64, 64), self._brightness, np.uint8)


class Slow(_Short):
    """A step computes for a millisecond of processor time."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = spaces.Discrete(2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        end = time.thread_time() + 1e-3
        while time.thread_time() < end:
            pass
        return self._after(float(action))

    def _observation(self) -> Any:
        return np.zeros(8, np.float32)


for _class in (ManyKeys, ManyKeysContinuous, Masked, Pictures, Slow):
    gymnasium.register(f"kinds/{_class.__name__}-v0", _class, disable_env_checker=True, order_enforce=False)
