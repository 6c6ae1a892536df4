"""Small environments that must be learnt: each one isolates one mistake a trainer can make.

They are flat `StructuredEnv`s with keyword-only options, so an experiment takes them as
`use = "maze_testing.environments:TwoStep"`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, Observation
from maze_runtime.env.flat import FlatEnv, flat_spaces

StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


def _vector(*values: float) -> Observation:
    return {"observation": np.array(values, np.float32)}


def _box(n_dimensions: int = 1, bound: float = 1.0) -> spaces.Dict:
    return spaces.Dict({"observation": spaces.Box(-bound, bound, (n_dimensions,), np.float32)})


def _discrete(n: int = 2) -> spaces.Dict:
    return spaces.Dict({"action": spaces.Discrete(n)})


class ConstantReward(FlatEnv):
    """One step, reward 1 whatever happens: V = 1. Fails where the value loss or its optimiser is wrong."""

    structured_spaces = flat_spaces(_box(), _discrete())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        return _vector(0.0), {}

    def step(self, action: Action) -> StepResult:
        return _vector(0.0), 1.0, True, False, {}


class ObservationReward(FlatEnv):
    """One step, reward equal to the observation (−1 or 1): V(s) = s. Fails where values ignore observations."""

    structured_spaces = flat_spaces(_box(), _discrete())

    def __init__(self) -> None:
        self._rng = np.random.default_rng()
        self._target = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._target = float(self._rng.choice((-1.0, 1.0)))
        return _vector(self._target), {}

    def step(self, action: Action) -> StepResult:
        return _vector(self._target), self._target, True, False, {}


class TwoStep(FlatEnv):
    """Observation 0, then 1; reward 1 at the end: V(0) = gamma, V(1) = 1. Fails where discounting is wrong."""

    structured_spaces = flat_spaces(_box(), _discrete())

    def __init__(self) -> None:
        self._t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._t = 0
        return _vector(0.0), {}

    def step(self, action: Action) -> StepResult:
        self._t += 1
        return _vector(1.0), float(self._t == 2), self._t == 2, False, {}


class ActionReward(FlatEnv):
    """One step, reward 1 for action 1 and −1 for action 0. Fails where the policy gradient is wrong."""

    structured_spaces = flat_spaces(_box(), _discrete())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        return _vector(0.0), {}

    def step(self, action: Action) -> StepResult:
        return _vector(0.0), 1.0 if int(action["action"]) == 1 else -1.0, True, False, {}


class RepeatFirst(FlatEnv):
    """The first observation says which action to repeat to the end; later ones say nothing. Fails without a memory.

    Reward 1 / `n_steps` for each right action: 1 a whole episode; without a memory 1 / `n_choices` on average. After
    popgym's task of this name (Morad et al. 2023).
    """

    def __init__(self, *, n_choices: int = 4, n_steps: int = 12) -> None:
        self._n_choices, self._n_steps = n_choices, n_steps
        self._rng = np.random.default_rng()
        self.structured_spaces = flat_spaces(_box(n_choices), _discrete(n_choices))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t, self._first = 0, int(self._rng.integers(self._n_choices))
        return _vector(*(np.arange(self._n_choices) == self._first)), {}

    def step(self, action: Action) -> StepResult:
        self._t += 1
        reward = float(int(action["action"]) == self._first) / self._n_steps
        return _vector(*[0.0] * self._n_choices), reward, self._t == self._n_steps, False, {}


class Endless(FlatEnv):
    """Reward 1 a step, cut after `n_steps`, never terminated: V = 1 / (1 − gamma).

    Fails where a truncated episode is treated as a terminated one, or bootstraps from the next episode: the
    observation counts the steps within the horizon but the world goes on, so every state is worth the same.
    """

    structured_spaces = flat_spaces(_box(), _discrete())

    def __init__(self, *, n_steps: int = 5) -> None:
        self._n_steps = n_steps
        self._t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._t = 0
        return _vector(0.0), {}

    def step(self, action: Action) -> StepResult:
        self._t += 1
        return _vector(0.0), 1.0, False, self._t == self._n_steps, {}


class Identity(FlatEnv):
    """The observation shows the action that is wanted; `n_steps` rewards of at most 1 an episode.

    Args:
        kind: of the action space: "discrete", "multi-discrete", "multi-binary" or "box".
        n_steps: an episode.
    """

    _ACTIONS: ClassVar[dict[str, spaces.Space[Any]]] = {
        "discrete": spaces.Discrete(4),
        "multi-discrete": spaces.MultiDiscrete([3, 4]),
        "multi-binary": spaces.MultiBinary(3),
        "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    }

    def __init__(self, *, kind: str = "discrete", n_steps: int = 8) -> None:
        self._space = self._ACTIONS[kind]
        self._kind = kind
        self._n_steps = n_steps
        self._t = 0
        self._rng = np.random.default_rng()
        self.structured_spaces = flat_spaces(
            _box(len(self._shown(self._space.sample()))), spaces.Dict({"action": self._space})
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = 0
        return self._next(), {}

    def step(self, action: Action) -> StepResult:
        reward = self._reward(np.asarray(action["action"]))
        self._t += 1
        return self._next(), reward, self._t == self._n_steps, False, {}

    def _next(self) -> Observation:
        space = self._space
        if isinstance(space, spaces.Discrete):
            self._target: Any = self._rng.integers(space.n)
        elif isinstance(space, spaces.MultiDiscrete):
            self._target = self._rng.integers(space.nvec)
        elif isinstance(space, spaces.MultiBinary):
            self._target = self._rng.integers(2, size=space.shape)
        else:
            self._target = self._rng.uniform(-0.8, 0.8, 2)
        return _vector(*self._shown(self._target))

    def _shown(self, target: Any) -> np.ndarray:
        if isinstance(self._space, spaces.Discrete):
            one_hot: np.ndarray = np.eye(self._space.n)[target]
            return one_hot
        if isinstance(self._space, spaces.MultiDiscrete):
            return np.concatenate([np.eye(n)[i] for n, i in zip(self._space.nvec, target, strict=True)])
        return np.asarray(target)

    def _reward(self, action: np.ndarray) -> float:
        if self._kind == "box":
            return float(1.0 - np.abs(action - self._target).mean())
        return float(np.mean(action == self._target))


class MaskedDict(FlatEnv):
    """A Dict action: pick the largest number that is allowed, and answer with its sign.

    Four numbers are shown with a mask over them; a masked pick raises, so the mask must reach the logits. Reward
    1 for the best pick, 1 for the right answer.
    """

    structured_spaces = flat_spaces(
        spaces.Dict(
            {
                "observation": spaces.Box(-1.0, 1.0, (4,), np.float32),
                "pick_mask": spaces.MultiBinary(4),
            }
        ),
        spaces.Dict({"pick": spaces.Discrete(4), "sign": spaces.MultiBinary(1)}),
    )

    def __init__(self, *, n_steps: int = 8) -> None:
        self._n_steps = n_steps
        self._t = 0
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = 0
        return self._next(), {}

    def step(self, action: Action) -> StepResult:
        pick = int(action["pick"])
        if not self._mask[pick]:
            raise ValueError(f"picked {pick}, which the mask {self._mask.tolist()} forbids")
        best = int(np.argmax(np.where(self._mask, self._numbers, -2.0)))
        is_positive = int(self._numbers[best] > 0)
        reward = float(pick == best) + float(int(np.asarray(action["sign"]).reshape(-1)[0]) == is_positive)
        self._t += 1
        return self._next(), reward, self._t == self._n_steps, False, {}

    def _next(self) -> Observation:
        self._numbers = self._rng.uniform(-1.0, 1.0, 4).astype(np.float32)
        self._mask = self._rng.integers(2, size=4).astype(np.int8)
        self._mask[self._rng.integers(4)] = 1
        return {"observation": self._numbers.copy(), "pick_mask": self._mask.copy()}
