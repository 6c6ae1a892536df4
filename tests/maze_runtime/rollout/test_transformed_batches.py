"""Transforms on one environment and on a batch give the same numbers and change nothing in place."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.rollout.estimation import estimate_transforms
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_runtime.workers.inline import InlinePool


class Walk(FlatEnv):
    """A seeded random walk of four steps; the reward is the action."""

    structured_spaces = flat_spaces(
        spaces.Dict(x=spaces.Box(-np.inf, np.inf, (2,), np.float32)),
        spaces.Dict(a=spaces.Box(-10, 10, (1,), np.float32)),
    )

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.count, self.x = 0, self.rng.normal(size=2).astype(np.float32)
        return {"x": self.x}, {}

    def step(self, action):
        self.count += 1
        self.x += self.rng.normal(size=2).astype(np.float32)
        return {"x": self.x}, float(action["a"][0]), False, self.count == 4, {}


class Affine(Transform):
    """x' = 2x + 1 under a new name, a = 3a', r' = r / 2."""

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        return flat_spaces(spaces.Dict(y=box), inner.action["0"])

    def observation(self, policy_key, observation):
        return {"y": observation["x"] * 2 + 1}

    def action(self, policy_key, action):
        return {"a": action["a"] * 3}

    def reward(self, reward):
        return reward / 2


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_and_single_environments_agree_final_observations_included(training):
    batch = TransformedVectorEnv(SequentialVectorEnv([Walk] * 3), Affine(), training=training)
    singles = SequentialVectorEnv([lambda: TransformedEnv(Walk(), Affine(), training)] * 3)
    assert batch.structured_spaces == singles.structured_spaces
    seeds, rng = [[1, 2, 3], [4], [5, 6]], np.random.default_rng(0)
    ticks = batch.reset(seeds), singles.reset(seeds)
    for _ in range(11):
        for one, other in [ticks]:
            assert (one.groups["0"].observation["y"] == other.groups["0"].observation["y"]).all()
            assert (one.reward == other.reward).all()
            assert (one.truncated == other.truncated).all()
            assert one.final_observation.keys() == other.final_observation.keys()
            for key, final in one.final_observation.items():
                assert (final.observation["y"] == other.final_observation[key].observation["y"]).all()
        actions = {"0": {"a": rng.normal(size=(3, 1)).astype(np.float32)}}
        kept = actions["0"]["a"].copy()
        ticks = batch.step(actions), singles.step(actions)
        assert (actions["0"]["a"] == kept).all()


def test_the_wrapped_batch_is_left_as_it_is():
    inner = SequentialVectorEnv([Walk] * 2)
    outer = TransformedVectorEnv(inner, Affine(), training=True)
    ticks = []
    original = inner.step
    inner.step = lambda actions: ticks.append(original(actions)) or ticks[-1]
    outer.reset([[1], [2]])
    tick = outer.step({"0": {"a": np.ones((2, 1), np.float32)}})
    assert set(ticks[0].groups["0"].observation) == {"x"}
    assert ticks[0].reward.tolist() == [3.0, 3.0]
    assert tick.reward.tolist() == [1.5, 1.5]
    assert outer.transforms == [outer.transform]
    assert TransformedVectorEnv(outer, Transform(), training=True).transforms[0] is outer.transform


class Mean(Transform):
    """Subtracts the mean that a random policy saw."""

    def __init__(self, n_steps: int) -> None:
        self.estimation_steps = n_steps
        self.mean = None

    def observation(self, policy_key, observation):
        return {name: array - self.mean for name, array in observation.items()}

    def collect(self, batches):
        rows = np.concatenate([array for batch in batches for group in batch.values() for array in group.values()])
        return len(rows), rows.sum(0)

    def finish_estimation(self, partials):
        self.estimation_steps = 0
        self.mean = sum(total for _, total in partials) / sum(n for n, _ in partials)
        self.n = sum(n for n, _ in partials)


def _make_batch():
    return SequentialVectorEnv([Walk] * 2)


@pytest.mark.parametrize("pooled", [False, True])
def test_estimation_goes_through_the_transforms_inside_and_is_reproducible(pooled):
    def estimate():
        chain = [Affine(), Mean(30), Mean(10)]
        pool = InlinePool() if pooled else None
        estimate_transforms(chain, _make_batch, seed=3, pool=pool)
        if pool is not None:
            pool.close()
        return chain

    first, again = estimate(), estimate()
    assert first[1].mean.tolist() == again[1].mean.tolist()
    assert first[1].n >= 30
    assert first[1].estimation_steps == 0
    # What the outer one sees is centred by the inner one, up to the sampling error of 10 steps of a short walk.
    assert np.abs(first[2].mean).max() < 10
    assert not np.allclose(first[1].mean, first[2].mean)


def test_rewards_are_shaped_for_training_only():
    step = {"0": {"a": np.zeros((2, 1), np.float32)}}
    rewards = {}
    for training in (True, False):
        batch = TransformedVectorEnv(SequentialVectorEnv([Walk] * 2), Affine(), training=training)
        batch.reset([[0], [1]])
        rewards[training] = batch.step(step).reward
    np.testing.assert_array_equal(rewards[True], rewards[False] / 2)


class IdleAffine(Affine):
    """Its options, say, leave everything but the observation alone."""

    def changes(self, what):
        return what == "observation"

    def action(self, policy_key, action):
        raise AssertionError("it said that it changes no actions")

    def reward(self, reward):
        raise AssertionError("it said that it changes no rewards")


def test_a_transform_is_asked_what_it_changes():
    batch = TransformedVectorEnv(SequentialVectorEnv([Walk]), IdleAffine(), training=True)
    assert "y" in batch.reset([[1]]).groups["0"].observation
    assert batch.step({"0": {"a": np.full((1, 1), 3.0, np.float32)}}).reward == [3.0]
