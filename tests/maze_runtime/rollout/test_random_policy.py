"""The random policy: every space, masks, and its random state."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from maze_kernel.contracts.env import FLAT_KEY
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import SpaceError
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces
from maze_runtime.rollout.random_policy import RandomPolicy

HEADS = {
    "discrete": spaces.Discrete(3, start=-1),
    "multi": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "binary": spaces.MultiBinary((2, 2)),
    "bounded": spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([1.0, 2.5], np.float32)),
    "half": spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([np.inf, 3.0], np.float32)),
    "free": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "widest": spaces.Box(-np.finfo(np.float64).max, np.finfo(np.float64).max, (1,), np.float64),
}


def policy(heads, seed=0, **masks):
    """With masks of so many bits in its observations, by name."""
    observed = {"observation": spaces.Box(-1, 1, (1,)), **{name: spaces.MultiBinary(n) for name, n in masks.items()}}
    return RandomPolicy(PolicyContext(spaces=flat_spaces(spaces.Dict(observed), spaces.Dict(heads)), seed=seed))


def group(n, **observation):
    return Group(env_index=np.arange(n), agent_id=np.zeros(n, np.int64), observation=observation)


@pytest.mark.parametrize("head", HEADS)
def test_every_sample_lies_in_its_space(head):
    actions = policy({head: HEADS[head]}).act(FLAT_KEY, group(200))[head]
    assert actions.shape == (200, *HEADS[head].shape)
    assert actions.dtype == HEADS[head].dtype
    assert all(HEADS[head].contains(np.asarray(action, HEADS[head].dtype)) for action in actions)


@pytest.mark.parametrize("none", [np.inf, np.finfo(np.float32).max])
def test_numbers_without_bounds_are_drawn_normally_and_those_with_one_exponentially(none):
    box = spaces.Box(np.array([-none, 2.0], np.float32), np.array([none, none], np.float32))
    actions = policy({"a": box}).act(FLAT_KEY, group(4000))["a"]
    np.testing.assert_allclose(actions.mean(0), [0.0, 3.0], atol=0.05)
    np.testing.assert_allclose(actions.std(0), [1.0, 1.0], atol=0.05)


def test_discrete_is_uniform_over_what_the_mask_allows():
    mask = np.tile(np.array([[1, 0, 1, 0, 1]], np.int8), (6000, 1))
    sampler = policy({"action": spaces.Discrete(5, start=2)}, action_mask=5)
    actions = sampler.act(FLAT_KEY, group(6000, action_mask=mask))["action"]
    values, counts = np.unique(actions, return_counts=True)
    assert values.tolist() == [2, 4, 6]
    assert np.abs(counts / 6000 - 1 / 3).max() < 0.03


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_mask_by_head_is_never_violated(data):
    nvec = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    n = 7
    parts = [rng.random((n, size)) < 0.5 for size in nvec]
    for part in parts:
        part[:, 0] |= ~part.any(axis=1)
    bits = rng.random((n, 3)) < 0.5
    heads = {"piece": spaces.MultiDiscrete(nvec), "flags": spaces.MultiBinary(3)}
    observation = {"piece_mask": np.concatenate(parts, axis=1).astype(np.int8), "flags_mask": bits.astype(np.int8)}
    sizes = {name: mask.shape[1] for name, mask in observation.items()}
    actions = policy(heads, seed, **sizes).act(FLAT_KEY, group(n, **observation))
    for row in range(n):
        assert all(part[row, choice] for part, choice in zip(parts, actions["piece"][row], strict=True))
        assert not (actions["flags"][row] & ~bits[row]).any()


BOX = spaces.Box(-1, 1, (1,))
ONE_OF = {
    "a choice beside a box": ({"move": spaces.Discrete(5, start=1), "push": BOX}, [[2], [4]]),
    "dimensions": ({"move": spaces.MultiDiscrete([3, 2]), "push": BOX}, [[1, 0]]),
    "bits": ({"move": spaces.MultiBinary(5)}, [[0, a, 0, b, 0] for a in (0, 1) for b in (0, 1)]),
}


@pytest.mark.parametrize("heads", ONE_OF)
def test_action_mask_is_that_of_the_only_head_that_can_have_one(heads):
    heads, allowed = ONE_OF[heads]
    mask = np.tile(np.array([[0, 1, 0, 1, 0]], np.int8), (99, 1))
    moves = policy(heads, action_mask=5).act(FLAT_KEY, group(99, action_mask=mask))["move"]
    assert sorted(map(tuple, {tuple(np.atleast_1d(move).tolist()) for move in moves})) == sorted(map(tuple, allowed))


def test_what_is_the_mask_of_no_head_forbids_nothing():
    heads = {"move": spaces.Discrete(3), "turn": spaces.Discrete(3)}
    nothing = np.tile(np.array([[1, 0, 0]], np.int8), (99, 1))
    actions = policy(heads, action_mask=3).act(FLAT_KEY, group(99, action_mask=nothing))
    assert {head: set(values.tolist()) for head, values in actions.items()} == {"move": {0, 1, 2}, "turn": {0, 1, 2}}


def test_a_row_without_an_allowed_action_is_sampled_freely():
    mask = np.zeros((50, 3), np.int8)
    actions = policy({"action": spaces.Discrete(3)}, action_mask=3).act(FLAT_KEY, group(50, action_mask=mask))["action"]
    assert set(actions.tolist()) == {0, 1, 2}


def test_its_state_survives_json():
    first = policy({"action": spaces.Discrete(1000)}, seed=3)
    first.act(FLAT_KEY, group(4))
    state = json.loads(json.dumps(first.state_dict()))
    second = policy({"action": spaces.Discrete(1000)}, seed=9)
    second.load_state_dict(state)
    expected = first.act(FLAT_KEY, group(4))["action"]
    assert second.act(FLAT_KEY, group(4))["action"].tolist() == expected.tolist()


def test_an_unknown_space_is_refused_by_name():
    with pytest.raises(SpaceError, match="'words'"):
        policy({"words": spaces.Text(4)})


def test_the_plugin_of_the_runtime_offers_it():
    import maze_runtime.plugin

    kernel = Kernel.of(maze_runtime.plugin)
    offered = {(entry.component.kind, entry.component.name) for entry in kernel.catalog.entries()}
    assert {("policy", "random"), ("workers", "inline"), ("command", "train")} <= offered
