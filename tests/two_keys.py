"""Environments with two policy keys that decide in turn, on which tests of trainers learn."""

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, StructuredEnv, StructuredSpaces

NUMBER = spaces.Box(-1.0, 1.0, (1,), np.float32)


class TwoKeys(StructuredEnv):
    """Two sub-steps a flat step: the first key acts on a number, the second on what came of it.

    An episode has eight flat steps. A subclass has `structured_spaces` and these two methods:

        said(action): what the second key observes.
        reward(action): of the flat step, for the second key's action.
    """

    def __init__(self):
        self._rng = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t, self._second = 0, False
        return self._next(), {}

    def _next(self):
        self.number = self._rng.uniform(-1.0, 1.0)
        return {"number": np.array([self.number], np.float32)}

    def step(self, action):
        self._second = not self._second
        if self._second:
            return self.said(action), 0.0, False, False, {}
        self._t += 1
        reward = self.reward(action)
        return self._next(), reward, False, self._t % 8 == 0, {}

    def actor_id(self):
        return ActorID(self.structured_spaces.policy_keys[self._second], 0)

    def is_actor_done(self):
        return False

    def is_flat_step_end(self):
        return not self._second

    def get_actor_rewards(self):
        return None

    def render(self):
        return None

    def close(self):
        return None


class _Signs(TwoKeys):
    """The first key names the sign of the number."""

    def said(self, action):
        self.named = int(action["sign"])
        self.is_right = self.named == int(self.number > 0)
        return {"number": np.array([self.number], np.float32), "named": self.named}


class SignThenVerdict(_Signs):
    """Name the sign of a number, then say whether the name was right."""

    structured_spaces = StructuredSpaces(
        observation={
            "name": spaces.Dict({"number": NUMBER}),
            "judge": spaces.Dict({"number": NUMBER, "named": spaces.Discrete(2)}),
        },
        action={
            "name": spaces.Dict({"sign": spaces.Discrete(2)}),
            "judge": spaces.Dict({"right": spaces.Discrete(2)}),
        },
        agent_counts={"name": 1, "judge": 1},
    )

    def reward(self, action):
        return float(self.is_right) + float(int(action["right"]) == int(self.is_right))


class SignThenSize(_Signs):
    """Name the sign of a number, then, seeing the sign that was named, copy the number's size."""

    structured_spaces = StructuredSpaces(
        observation={
            "sign": spaces.Dict({"number": NUMBER}),
            "size": spaces.Dict({"number": NUMBER, "named": spaces.Discrete(2)}),
        },
        action={
            "sign": spaces.Dict({"sign": spaces.Discrete(2)}),
            "size": spaces.Dict({"size": spaces.Box(0.0, 1.0, (1,), np.float32)}),
        },
        agent_counts={"sign": 1, "size": 1},
    )

    def reward(self, action):
        return float(self.is_right) - abs(float(action["size"][0]) - abs(self.number))


class RepeatThenError(TwoKeys):
    """Repeat a number, then say how far the repetition was off."""

    structured_spaces = StructuredSpaces(
        observation={
            "repeat": spaces.Dict({"number": NUMBER}),
            "judge": spaces.Dict({"pair": spaces.Box(-1.0, 1.0, (2,), np.float32)}),
        },
        action={
            "repeat": spaces.Dict({"said": NUMBER}),
            "judge": spaces.Dict({"error": spaces.Box(-2.0, 2.0, (1,), np.float32)}),
        },
        agent_counts={"repeat": 1, "judge": 1},
    )

    def said(self, action):
        self.repeated = float(action["said"][0])
        return {"pair": np.array([self.number, self.repeated], np.float32)}

    def reward(self, action):
        off = self.repeated - self.number
        return -abs(off) - abs(float(action["error"][0]) - off)
