"""What policies and environments see of wrappers that change names, heads and kinds of spaces."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import MazeError, SpaceError
from maze_runtime.context import RunContext
from maze_runtime.env.flat import FlatEnv, flat_spaces

OBSERVATION = spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32))


def bound(kernel, name, observation, action, **options):
    transform = build(select(kernel, "wrapper", {"use": name, **options}))
    return transform, transform.bind(flat_spaces(observation, spaces.Dict(action)))


def test_bins_mean_their_centres(kernel):
    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))
    transform, outer = bound(kernel, "discretize-actions", OBSERVATION, {"a": box}, n_bins=4)
    assert outer.action["0"]["a"] == spaces.MultiDiscrete([4, 4])
    assert transform.action("0", {"a": np.array([[0, 1], [3, 3]])})["a"].tolist() == [[-0.75, 1.5], [0.75, 3.5]]
    assert transform.reverse_action("0", {"a": np.array([0.99, 4.0])})["a"].tolist() == [3, 3]
    transform, outer = bound(kernel, "discretize-actions", OBSERVATION, {"a": spaces.Box(-2, 2, (1,))}, n_bins=5)
    assert outer.action["0"]["a"] == spaces.Discrete(5)
    assert transform.action("0", {"a": 2})["a"].tolist() == [0.0]
    assert transform.action("0", {"a": np.array([0, 4])})["a"].tolist() == [[pytest.approx(-1.6)], [pytest.approx(1.6)]]
    with pytest.raises(SpaceError, match="no finite range"):
        bound(kernel, "discretize-actions", OBSERVATION, {"a": spaces.Box(-np.inf, np.inf, (1,))})


def test_parts_of_an_action_are_put_together(kernel):
    heads = {"a": {"left": [2], "right": [0, 1]}}
    transform, outer = bound(kernel, "split-actions", OBSERVATION, {"a": spaces.MultiDiscrete([2, 3, 4])}, heads=heads)
    assert outer.action["0"] == spaces.Dict(left=spaces.Discrete(4), right=spaces.MultiDiscrete([2, 3]))
    whole = transform.action("0", {"left": np.array([3, 0]), "right": np.array([[0, 1], [1, 2]])})["a"]
    assert whole.tolist() == [[0, 1, 3], [1, 2, 0]]
    assert transform.action("0", {"left": 3, "right": np.array([0, 1])})["a"].tolist() == [0, 1, 3]
    with pytest.raises(MazeError, match="each of its elements once"):
        bound(kernel, "split-actions", OBSERVATION, {"a": spaces.MultiBinary(2)}, heads={"a": {"b": [0]}})


def test_heads_and_their_masks_become_one(kernel):
    observation = spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32), b_mask=spaces.MultiBinary(3))
    action = {"a": spaces.MultiBinary(2), "b": spaces.Discrete(3)}
    transform, outer = bound(kernel, "no-dict-action", observation, action)
    assert outer.action["0"] == spaces.Dict(action=spaces.MultiDiscrete([2, 2, 3]))
    assert set(outer.observation["0"].spaces) == {"x", "action_mask"}
    seen = transform.observation("0", {"x": np.zeros(2, np.float32), "b_mask": np.array([0, 1, 0], np.int8)})
    assert seen["action_mask"].tolist() == [1, 1, 1, 1, 0, 1, 0]
    inner = transform.action("0", {"action": np.array([1, 0, 1])})
    assert inner["a"].tolist() == [1, 0]
    assert inner["b"] == 1
    with pytest.raises(SpaceError, match="cannot be joined"):
        bound(kernel, "no-dict-action", OBSERVATION, {"a": spaces.Discrete(2), "b": spaces.Box(0, 1)})


def test_observations_become_one_vector(kernel):
    observation = spaces.Dict(gear=spaces.Discrete(3), x=spaces.Box(-1, 5, (2, 2), np.float32))
    transform, outer = bound(kernel, "no-dict-observation", observation, {"a": spaces.Discrete(2)})
    assert outer.observation["0"]["observation"].high.tolist() == [1, 1, 1, 5, 5, 5, 5]
    joined = transform.observation("0", {"gear": 1, "x": np.array([[1, 2], [3, 4]], np.float32)})
    assert joined["observation"].tolist() == [0, 1, 0, 1, 2, 3, 4]


class Nameless(FlatEnv):
    """One decision, and spaces without names, as an environment from elsewhere may have them."""

    structured_spaces = StructuredSpaces(
        observation={"0": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)])},
        action={"0": spaces.Discrete(2)},
    )

    def reset(self, *, seed=None, options=None):
        return (np.zeros(2, np.float32), 1), {}

    def step(self, action):
        assert isinstance(action, int)
        return (np.ones(2, np.float32), 0), float(action), True, False, {}


def test_an_environment_without_names_trains_with_them(tmp_path):
    names = ["dict-observation", {"use": "dict-action", "key": "side"}]
    context = RunContext(
        env=Nameless,
        wrappers=names,
        overrides={"trainer.epoch_length": 1, "trainer.n_rollout_steps": 8, "evaluation.n_episodes": 2},
        run_dir=tmp_path / "run",
        silent=True,
    )
    context.train(n_epochs=1)
    assert context.compute_action({"observation_0": np.zeros(2), "observation_1": 1}) in (0, 1)


class Reversed(FlatEnv):
    structured_spaces = flat_spaces(
        spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))]),
        spaces.Dict([("w", spaces.Discrete(2)), ("b", spaces.Discrete(3))]),
    )


def test_keys_are_sorted(kernel):
    transform = build(select(kernel, "wrapper", "sorted-spaces"))
    outer = transform.bind(Reversed.structured_spaces)
    assert list(outer.observation["0"].spaces) == list(transform.observation("0", {"z": 0, "a": 1})) == ["a", "z"]
    assert list(outer.action["0"].spaces) == ["b", "w"]
    assert list(transform.action("0", {"b": 0, "w": 1})) == ["w", "b"]
