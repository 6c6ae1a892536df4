"""What a transform makes of ticks is compared with the spaces that it announces, and said with its name."""

import attrs
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.batch_factory import wrap_batch


class Three(FlatEnv):
    """Episodes of three steps that pay one a step."""

    structured_spaces = flat_spaces(
        spaces.Dict(state=spaces.Box(-1, 1, (2,), np.float32)), spaces.Dict(action=spaces.Discrete(2))
    )

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return {"state": np.zeros(2, np.float32)}, {}

    def step(self, action):
        self.t += 1
        return {"state": np.full(2, self.t, np.float32)}, 1.0, self.t == 3, False, {}


class Narrow(Transform):
    def observation(self, policy_key, observation):
        return {name: array[..., :1] for name, array in observation.items()}


class Double(Transform):
    def observation(self, policy_key, observation):
        return {name: array.astype(np.float64) for name, array in observation.items()}


class More(Transform):
    def bind(self, inner):
        more = spaces.Dict(state=inner.observation["0"]["state"], more=spaces.Box(-1, 1, (1,), np.float32))
        return attrs.evolve(inner, observation={"0": more})


class Mean(Transform):
    def reward(self, reward):
        return np.mean(reward)


class NanInTheEnd(Transform):
    def observation(self, policy_key, observation):
        return {name: np.where(array < 3, array, np.nan).astype(np.float32) for name, array in observation.items()}


class NanLater(Transform):
    n = 0

    def reward(self, reward):
        self.n += 1
        return reward if self.n < 40 else reward * np.nan


def play(transform, n_steps=8, **how):
    batch = wrap_batch(SequentialVectorEnv([Three, Three]), [transform], training=True, **how)
    batch.reset([[0], [1]])
    for _ in range(n_steps):
        batch.step({"0": {"action": np.zeros(2, np.int64)}})


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (Narrow(), "the observation 'state' has another form"),
        (Double(), "the observation 'state' has another form"),
        (More(), "the observation lacks the key 'more'"),
        (Mean(), "reward has another form"),
        (NanInTheEnd(), "the final observation 'state' is not finite"),
    ],
)
def test_the_transform_is_named_with_its_module(transform, said):
    with pytest.raises(EnvError, match=f"wrapper .*{type(transform).__name__} gave .*{said}") as caught:
        play(transform)
    assert caught.value.owner == f"{__name__}:{type(transform).__name__}"


def test_every_tick_is_looked_at_where_it_is_asked_for():
    play(NanLater(), 50)
    with pytest.raises(EnvError, match=r"wrapper .*NanLater gave at a step .* reward is not finite"):
        play(NanLater(), 50, looks_always=True)
