"""What policies and environments see of wrappers that change names, heads and kinds of spaces."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import MazeError, RequestError, SpaceError
from maze_runtime.context import RunContext
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.mask_reading import mask_names

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
    for none in (np.inf, np.finfo(np.float32).max):
        with pytest.raises(SpaceError, match="no finite range"):
            bound(kernel, "discretize-actions", OBSERVATION, {"a": spaces.Box(-none, none, (1,))})


@pytest.mark.parametrize(
    ("box", "options", "values"),
    [
        (spaces.Box(0, 4, (1,), np.int32), {}, [0, 1, 2, 3, 4]),
        (spaces.Box(-1, 1, (), np.int8), {}, [-1, 0, 1]),
        (spaces.Box(0, 1, (1,), np.bool_), {}, [0, 1]),
        (spaces.Box(0, 255, (1,), np.uint8), {"n_bins": 3}, [42, 128, 213]),
        (spaces.Box(0, 9, (1,), np.int64), {"heads": {"a": {"low": [1.5], "high": [7.9]}}, "n_bins": 2}, [3, 6]),
    ],
    ids=str,
)
def test_bins_of_whole_numbers_divide_all_of_them(kernel, box, options, values):
    transform, outer = bound(kernel, "discretize-actions", OBSERVATION, {"a": box}, **options)
    assert outer.action["0"]["a"] == spaces.Discrete(len(values))
    bins = np.arange(len(values))
    whole = transform.action("0", {"a": bins})["a"]
    assert whole.dtype == box.dtype
    assert whole.ravel().tolist() == values
    assert transform.reverse_action("0", {"a": whole})["a"].tolist() == bins.tolist()
    exported = transform.export_action("0", {"a": torch.from_numpy(bins)})["a"].numpy()
    np.testing.assert_array_equal(exported, whole, strict=True)


@pytest.mark.parametrize(("head", "mask"), [("move", "move_mask"), ("action", "action_mask")])
def test_the_mask_of_the_only_choice_masks_it_beside_bins_too(kernel, head, mask):
    observation = spaces.Dict(x=spaces.Box(-1, 1, (2,)), action_mask=spaces.MultiBinary(3))
    action = {head: spaces.Discrete(3), "turn": spaces.Box(-1, 1, (1,))}
    transform, outer = bound(kernel, "discretize-actions", observation, action, n_bins=3)
    assert mask_names(outer.observation["0"], outer.action["0"]) == {head: mask}
    assert set(outer.observation["0"].spaces) == {"x", mask}
    assert transform.changes("observation") is (mask != "action_mask")
    given = {"x": np.zeros((2, 2)), "action_mask": np.array([[1, 0, 1], [0, 1, 1]], np.int8)}
    seen = transform.observation("0", given)
    assert seen[mask] is given["action_mask"]
    exported = transform.export_observation("0", {key: torch.from_numpy(value) for key, value in given.items()})
    assert {key: value.tolist() for key, value in exported.items()} == {
        key: value.tolist() for key, value in seen.items()
    }


def test_parts_of_an_action_are_put_together(kernel):
    heads = {"a": {"left": [2], "right": [0, 1]}}
    transform, outer = bound(kernel, "split-actions", OBSERVATION, {"a": spaces.MultiDiscrete([2, 3, 4])}, heads=heads)
    assert outer.action["0"] == spaces.Dict(left=spaces.Discrete(4), right=spaces.MultiDiscrete([2, 3]))
    whole = transform.action("0", {"left": np.array([3, 0]), "right": np.array([[0, 1], [1, 2]])})["a"]
    assert whole.tolist() == [[0, 1, 3], [1, 2, 0]]
    assert transform.action("0", {"left": 3, "right": np.array([0, 1])})["a"].tolist() == [0, 1, 3]
    with pytest.raises(MazeError, match="each of its elements once"):
        bound(kernel, "split-actions", OBSERVATION, {"a": spaces.MultiBinary(2)}, heads={"a": {"b": [0]}})


HOOKS = spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32), a_mask=spaces.MultiBinary(9))


@pytest.mark.parametrize("n_envs", [None, 2])
def test_the_mask_of_an_action_is_split_with_it(kernel, n_envs):
    heads = {"a": {"left": [2], "right": [1, 0]}}
    transform, outer = bound(kernel, "split-actions", HOOKS, {"a": spaces.MultiDiscrete([2, 3, 4])}, heads=heads)
    assert outer.observation["0"] == spaces.Dict(
        x=HOOKS["x"], left_mask=spaces.MultiBinary(4), right_mask=spaces.MultiBinary(5)
    )
    mask = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1], np.int8)  # 0; 1 or 2; 3
    rows = mask if n_envs is None else np.stack([mask] * n_envs)
    seen = transform.observation("0", {"x": np.zeros((*rows.shape[:-1], 2), np.float32), "a_mask": rows})
    assert set(seen) == {"x", "left_mask", "right_mask"}
    np.testing.assert_array_equal(seen["left_mask"], np.broadcast_to([0, 0, 0, 1], (*rows.shape[:-1], 4)))
    np.testing.assert_array_equal(seen["right_mask"], np.broadcast_to([0, 1, 1, 1, 0], (*rows.shape[:-1], 5)))
    if n_envs is not None:
        tensors = transform.export_observation("0", {"x": torch.zeros(n_envs, 2), "a_mask": torch.from_numpy(rows)})
        assert {name: value.tolist() for name, value in tensors.items()} == {
            name: value.tolist() for name, value in seen.items()
        }


def test_a_mask_of_bits_and_one_called_action_mask_are_split_too(kernel):
    observation = spaces.Dict(x=spaces.Box(-1, 1, (2,)), action_mask=spaces.Box(0, 1, (3, 1)))
    heads = {"a": {"a": [2, 0], "b": [1]}}
    transform, outer = bound(kernel, "split-actions", observation, {"a": spaces.MultiBinary(3)}, heads=heads)
    assert set(outer.observation["0"].spaces) == {"x", "a_mask", "b_mask"}
    seen = transform.observation("0", {"x": np.zeros(2), "action_mask": np.array([[0.0], [1.0], [1.0]])})
    assert seen["a_mask"].tolist() == [1, 0]
    assert seen["b_mask"].tolist() == [1]


def test_without_masks_a_split_leaves_observations_alone(kernel):
    transform, outer = bound(
        kernel, "split-actions", OBSERVATION, {"a": spaces.MultiBinary(2)}, heads={"a": {"b": [0], "c": [1]}}
    )
    assert outer.observation["0"] == OBSERVATION
    assert not transform.changes("observation")


def test_a_mask_of_a_part_does_not_take_the_name_of_an_observation(kernel):
    observation = spaces.Dict(a_mask=spaces.MultiBinary(4), b_mask=spaces.Box(0, 1, (3,)))
    with pytest.raises(RequestError, match="'b_mask'"):
        bound(
            kernel,
            "split-actions",
            observation,
            {"a": spaces.MultiDiscrete([2, 2])},
            heads={"a": {"b": [0], "c": [1]}},
        )


def test_training_obeys_the_mask_of_the_only_choice_beside_bins():
    moves = []

    class Walker(gymnasium.Env):
        observation_space = spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32), action_mask=spaces.MultiBinary(3))
        action_space = spaces.Dict(move=spaces.Discrete(3), turn=spaces.Box(-1, 1, (1,), np.float32))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.n_steps = 0
            return self._observe(), {}

        def step(self, action):
            moves.append(int(action["move"]))
            self.n_steps += 1
            return self._observe(), 0.0, self.n_steps >= 5, False, {}

        def _observe(self):
            return {"x": np.zeros(2, np.float32), "action_mask": np.array([1, 0, 1], np.int8)}

    overrides = {"trainer.epoch_length": 1, "trainer.n_rollout_steps": 16, "evaluation.n_episodes": 1}
    RunContext(env=Walker, wrappers=["discretize-actions"], overrides=overrides, silent=True).train(n_epochs=1)
    assert len(moves) > 100
    assert 1 not in moves


def test_actions_that_are_split_in_another_order_obey_their_mask(kernel):
    forbidden = []

    class Crane(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (2,), np.float32)
        action_space = spaces.MultiDiscrete([3, 2])
        mask = np.array([1, 1, 1, 1, 0], np.int8)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.n_steps = 0
            return np.zeros(2, np.float32), {"action_mask": self.mask}

        def step(self, action):
            self.n_steps += 1
            forbidden.append(bool(action[1]))
            return np.zeros(2, np.float32), 0.0, self.n_steps >= 5, False, {"action_mask": self.mask}

    for parts in ({"both": [1, 0]}, {"hook": [0], "speed": [1]}):
        wrappers = [{"use": "split-actions", "heads": {"action": parts}}]
        RunContext(env=Crane, wrappers=wrappers, overrides={"trainer.epoch_length": 1}, silent=True).train(n_epochs=1)
    assert len(forbidden) > 100
    assert not any(forbidden)


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


def test_joined_numbers_are_rounded_where_an_action_holds_whole_ones(kernel):
    action = {"level": spaces.Box(0, 4, (2,), np.int32), "turn": spaces.Box(-1, 1, (1,), np.float32)}
    transform, outer = bound(kernel, "no-dict-action", OBSERVATION, action)
    joined = np.array([[0.6, 3.9, -0.5]], outer.action["0"]["action"].dtype)
    inner = transform.action("0", {"action": joined})
    assert inner["level"].tolist() == [[1, 4]]
    assert inner["turn"].tolist() == [[-0.5]]
    exported = transform.export_action("0", {"action": torch.from_numpy(joined)})
    assert exported["level"].numpy().dtype == inner["level"].dtype == np.int32
    assert exported["level"].tolist() == inner["level"].tolist()


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
