"""Games of random numbers whose spaces, actors and endings a test chooses: what trainers must cope with."""

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import FLAT_KEY, ActorID, StructuredSpaces
from maze_runtime.env.flat import FlatEnv

OBSERVATIONS = {
    "numbers": lambda: spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "doubles": lambda: spaces.Box(-1.0, 1.0, (2,), np.float64),
    "whole": lambda: spaces.Box(-5, 5, (2,), np.int64),
    "scalar": lambda: spaces.Box(-1.0, 1.0, (), np.float32),
    "image": lambda: spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "sequence": lambda: spaces.Box(-1.0, 1.0, (4, 2), np.float32),
    "one-of": lambda: spaces.Discrete(4, start=2),
    "some-of": lambda: spaces.MultiDiscrete([3, 2]),
    "bits": lambda: spaces.MultiBinary(3),
}
CHOICES = {
    "choice": lambda: spaces.Discrete(3),
    "from-one": lambda: spaces.Discrete(4, start=1),
    "choices": lambda: spaces.MultiDiscrete([2, 3]),
    "switches": lambda: spaces.MultiBinary(2),
}
BOUNDED = {
    "box": lambda: spaces.Box(-1.0, 1.0, (2,), np.float32),
    "uneven": lambda: spaces.Box(np.array([-3.0, 0.0], np.float32), np.array([1.0, 10.0], np.float32)),
    "double": lambda: spaces.Box(-2.0, 2.0, (1,), np.float64),
}
UNBOUNDED = {
    "free": lambda: spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "half": lambda: spaces.Box(0.0, np.inf, (1,), np.float32),
}
ACTIONS = CHOICES | BOUNDED | UNBOUNDED


class AnyGame(FlatEnv):
    """All actors decide once a flat step, policy key by policy key; rewards grow with what they choose.

    Args:
        observations: of each policy key, names in `OBSERVATIONS`.
        actions: of each policy key, names in `ACTIONS`.
        agents: of each policy key, how many.
        masks: Discrete heads have masks, of 60 % of the choices and of one at least.
        leave: probability that an actor leaves with its decision; the last one stays.
        ends: how episodes end: "terminated", "truncated" or "either".
        longest: flat steps of an episode at most.
    """

    def __init__(
        self,
        *,
        observations: list[list[str]],
        actions: list[list[str]],
        agents: list[int],
        masks: bool = False,
        leave: float = 0.0,
        ends: str = "either",
        longest: int = 9,
    ):
        self._leave, self._ends, self._longest = leave, ends, longest
        keys = [FLAT_KEY] if len(actions) == 1 else [f"key{i}" for i in range(len(actions))]
        heads = {
            key: {f"{name}{i}": ACTIONS[name]() for i, name in enumerate(own)}
            for key, own in zip(keys, actions, strict=True)
        }
        parts = {
            key: {f"{name}-{i}": OBSERVATIONS[name]() for i, name in enumerate(own)}
            for key, own in zip(keys, observations, strict=True)
        }
        if masks:
            for key, own in heads.items():
                masked = {name: space for name, space in own.items() if isinstance(space, spaces.Discrete)}
                parts[key] |= {f"{name}_mask": spaces.MultiBinary(int(space.n)) for name, space in masked.items()}
        self.structured_spaces = StructuredSpaces(
            observation={key: spaces.Dict(own) for key, own in parts.items()},
            action={key: spaces.Dict(own) for key, own in heads.items()},
            agent_counts=dict(zip(keys, agents, strict=True)),
        )
        self._actors = [ActorID(key, agent) for key, n in zip(keys, agents, strict=True) for agent in range(n)]
        self._rng = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._n_left = int(self._rng.integers(1, self._longest + 1))
        self._present, self._waiting = list(self._actors), list(self._actors)
        self._left = False
        return self._observe(), {}

    def step(self, action):
        actor = self._waiting.pop(0)
        for name, space in self.structured_spaces.action[actor.step_key].items():
            assert space.contains(action[name]) or space.contains(np.asarray(action[name], space.dtype)), name
        reward = float(sum(np.tanh(np.sum(value, dtype=float)) for value in action.values()))
        self._left = len(self._present) > 1 and self._rng.random() < self._leave
        if self._left:
            self._present.remove(actor)
        if self._waiting:
            return self._observe(), reward, False, False, {}
        self._n_left -= 1
        self._waiting = list(self._present)
        ends = self._ends if self._ends != "either" else ("terminated", "truncated")[self._rng.integers(2)]
        over = self._n_left == 0
        return self._observe(), reward, over and ends == "terminated", over and ends == "truncated", {}

    def _observe(self):
        return {
            name: self._draw(name, space)
            for name, space in self.structured_spaces.observation[self.actor_id()[0]].items()
        }

    def _draw(self, name, space):
        rng = self._rng
        if name.endswith("_mask"):
            mask = rng.random(space.n) < 0.6
            mask[rng.integers(space.n)] = True
            return mask.astype(np.int8)
        if isinstance(space, spaces.Discrete):
            return int(space.start + rng.integers(space.n))
        if isinstance(space, spaces.MultiDiscrete):
            return rng.integers(space.nvec)
        if isinstance(space, spaces.MultiBinary):
            return rng.integers(2, size=space.shape, dtype=np.int8)
        if space.dtype.kind in "ui":
            return rng.integers(space.low, space.high, dtype=space.dtype, endpoint=True)
        return np.asarray(np.clip(rng.normal(size=space.shape), space.low, space.high), space.dtype)

    def actor_id(self):
        return self._waiting[0]

    def is_actor_done(self):
        return self._left

    def is_flat_step_end(self):
        return len(self._waiting) == len(self._present)
