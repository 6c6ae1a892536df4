"""Every wrapper against slow NumPy; one environment and a batch agree; statistics survive saving."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import EnvError, MazeError, MazeWarning, RequestError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.rollout.estimation import estimate_transforms
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.options import (
    KeyNormalization,
    ObservationNormalizationOptions,
    ReturnNormalizationOptions,
    RewardClippingOptions,
    RewardScalingOptions,
    TimeLimitOptions,
)
from maze_wrappers.return_normalization import ReturnNormalization
from maze_wrappers.reward_clipping import RewardClipping
from maze_wrappers.reward_scaling import RewardScaling
from maze_wrappers.running_statistics import RunningMoments, RunningRange
from maze_wrappers.time_limit import TimeLimit

INNER = flat_spaces(
    spaces.Dict(
        x=spaces.Box(np.array([-2.0, 0, -np.inf], np.float32), np.array([2.0, 10, np.inf], np.float32)),
        image=spaces.Box(0, 255, (4, 3), np.uint8),
        gear=spaces.Discrete(4),
        action_mask=spaces.MultiBinary(2),
    ),
    spaces.Dict(action=spaces.Discrete(2)),
)


class Noise(FlatEnv):
    """Random observations and rewards, episodes of three to six steps; the third feature is constant."""

    structured_spaces = INNER

    def reset(self, *, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.left = int(self.rng.integers(3, 7))
        return self._observe(), {}

    def step(self, action):
        self.left -= 1
        return self._observe(), float(self.rng.normal(5, 3)), self.left == 0, False, {}

    def _observe(self):
        return {
            "x": np.array([self.rng.uniform(-2, 2), self.rng.uniform(0, 10), 7.0], np.float32),
            "image": self.rng.integers(0, 256, (4, 3), dtype=np.uint8),
            "gear": int(self.rng.integers(4)),
            "action_mask": np.ones(2, np.int8),
        }


def _batch(n=3):
    return SequentialVectorEnv([Noise] * n)


def _zeros(n=3):
    return {"0": {"action": np.zeros(n, np.int64)}}


def _rows(name, n_steps=40):
    """Everything a batch observes, each observation once, by hand."""
    envs = _batch()
    tick = envs.reset([[1], [2], [3]])
    rows = [tick.groups["0"].observation[name].copy()]
    for _ in range(n_steps):
        tick = envs.step(_zeros())
        rows.append(tick.groups["0"].observation[name].copy())
        rows += [final.observation[name] for final in tick.final_observation.values()]
    return np.concatenate(rows)


@given(
    data=st.lists(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=6).filter(lambda part: len(part) % 2 == 0),
        min_size=1,
        max_size=8,
    )
)
@settings(deadline=None, max_examples=60)
def test_batches_of_any_size_give_the_moments_of_all_samples(data):
    batches = [np.array(part, np.float32).reshape(-1, 2) for part in data]
    moments, span, parts = RunningMoments(), RunningRange(), [RunningMoments(), RunningMoments()]
    for index, batch in enumerate(batches):
        moments.update(batch)
        span.update(batch)
        parts[index % 2].update(batch)
    parts[0].merge(parts[1])
    everything = np.concatenate(batches).astype(np.float64)
    scale = np.abs(everything).max() + 1
    for one in (moments, parts[0]):
        assert one.count == len(everything)
        np.testing.assert_allclose(one.mean, everything.mean(0), atol=1e-9 * scale)
        np.testing.assert_allclose(np.sqrt(one.m2 / one.count), everything.std(0), atol=1e-7 * scale)
    np.testing.assert_array_equal(span.min, everything.min(0))
    np.testing.assert_array_equal(span.max, everything.max(0))


@pytest.mark.parametrize("strategy", ["mean-zero-std-one", "range-zero-one"])
def test_running_statistics_equal_those_of_everything_seen_and_freeze_in_evaluation(strategy):
    options = ObservationNormalizationOptions(strategy=strategy, statistics="running", exclude=("image",))
    transform = ObservationNormalization(options)
    envs = TransformedVectorEnv(_batch(), transform, training=True)
    envs.reset([[1], [2], [3]])
    for _ in range(40):
        tick = envs.step(_zeros())
    samples = _rows("x").astype(np.float64)
    if strategy == "mean-zero-std-one":
        offset, scale = samples.mean(0), samples.std(0)
    else:
        offset, scale = samples.min(0), samples.max(0) - samples.min(0)
    assert scale[2] < 1e-12
    scale[2] = 1.0
    probe = np.array([[0.5, 4.0, 9.0]], np.float32)
    result = transform.observation("0", {"x": probe})["x"]
    np.testing.assert_allclose(result, (probe - offset) / scale, rtol=2e-5, atol=1e-6)
    assert result.dtype == np.float32
    observation = tick.groups["0"].observation
    assert observation["image"].dtype == np.uint8
    assert observation["gear"].dtype == np.int64
    assert (observation["action_mask"] == 1).all()

    before = json.dumps(transform.state_dict(), default=np.ndarray.tolist)
    evaluation = TransformedVectorEnv(_batch(), transform, training=False)
    evaluation.reset([[9], [9], [9]])
    for _ in range(5):
        evaluation.step(_zeros())
    assert json.dumps(transform.state_dict(), default=np.ndarray.tolist) == before


@pytest.mark.parametrize(
    ("axis", "over", "shape"), [((0,), 0, (4, 3)), ((), (0, 1, 2), (1, 1)), ((0, 1), (0, 1), (1, 3))]
)
def test_axes_say_what_shares_one_statistic(axis, over, shape):
    samples = np.random.default_rng(0).normal(3, 2, (50, 4, 3)).astype(np.float32)
    inner = flat_spaces(spaces.Dict(x=spaces.Box(-9, 9, (4, 3), np.float32)), INNER.action["0"])
    transform = ObservationNormalization(ObservationNormalizationOptions(axis=axis))
    transform.bind(inner)
    transform.finish_estimation([transform.collect([{"0": {"x": samples}}])])
    result = transform.observation("0", {"x": samples})["x"]
    wanted = samples.astype(np.float64)
    mean, std = wanted.mean(over, keepdims=True), wanted.std(over, keepdims=True)
    np.testing.assert_allclose(result, (wanted - mean) / std, rtol=1e-4, atol=1e-5)
    assert transform.state_dict()["estimated"]["x"]["mean"].shape == shape
    # Leading dimensions are free: one sample, or time and batch.
    np.testing.assert_array_equal(transform.observation("0", {"x": samples[7]})["x"], result[7])
    stacked = transform.observation("0", {"x": samples.reshape(5, 10, 4, 3)})["x"]
    np.testing.assert_array_equal(stacked.reshape(50, 4, 3), result)


def test_estimation_gives_centred_observations_and_transformed_spaces():
    transform = ObservationNormalization(
        ObservationNormalizationOptions(n_estimation_steps=600, clip_range=(-1.5, 1.5))
    )
    assert transform.estimation_steps == 600
    transform.bind(INNER)
    with pytest.raises(EnvError, match="never estimated"):
        transform.observation("0", {"x": np.zeros(3, np.float32)})
    estimate_transforms([transform], _batch, seed=0)
    assert transform.estimation_steps == 0
    outer = transform.bind(INNER).observation["0"]
    assert outer["x"].low[:2] == pytest.approx([-1.5, -1.5])
    assert outer["x"].high[2] == 1.5
    assert outer["gear"] == INNER.observation["0"]["gear"]
    envs = TransformedVectorEnv(_batch(), transform, training=True)
    tick = envs.reset([[5], [6], [7]])
    rows = []
    for _ in range(300):
        rows.append(tick.groups["0"].observation["x"])
        tick = envs.step(_zeros())
    rows = np.concatenate(rows)
    assert np.abs(rows[:, :2].mean(0)).max() < 0.15
    assert (rows[:, 2] == 0).all()
    assert np.abs(rows).max() <= 1.5


def test_what_no_estimation_step_came_to_stays_as_it_is():
    rare = spaces.Dict(y=spaces.Box(-9, 9, (2,), np.float32))
    both = StructuredSpaces(
        observation={"0": INNER.observation["0"], "rare": rare},
        action={"0": INNER.action["0"], "rare": INNER.action["0"]},
        agent_counts={"0": 1, "rare": 1},
    )
    transform = ObservationNormalization(ObservationNormalizationOptions(n_estimation_steps=50))
    transform.bind(both)
    seen = {"0": {"x": np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], np.float32)}}
    with pytest.warns(MazeWarning, match="none of the 50 estimation steps came to image, y, which are not normalised"):
        transform.finish_estimation([transform.collect([seen])])
    assert transform.estimation_steps == 0
    assert transform.bind(both).observation["rare"]["y"].high.tolist() == [np.inf, np.inf]
    again = ObservationNormalization(ObservationNormalizationOptions())
    again.load_state_dict(transform.state_dict())
    again.bind(both)
    for either in (transform, again):
        assert either.observation("0", {"x": seen["0"]["x"][0]})["x"].tolist() == [-1, -1, -1]
        assert either.observation("rare", {"y": np.array([[5.0, 7.0]], np.float32)})["y"].tolist() == [[5, 7]]


@pytest.mark.parametrize("statistics", ["estimated", "running"])
def test_only_running_statistics_have_to_see_the_steps_of_training(statistics):
    options = ObservationNormalizationOptions(statistics=statistics)
    assert ObservationNormalization(options).keeps_running_statistics is (statistics == "running")


def test_bounds_follow_and_unbounded_sides_stay():
    keys = {"x": KeyNormalization(mean=(1.0, 5.0, 0.0), std=(2.0, 0.0, 4.0))}
    transform = ObservationNormalization(ObservationNormalizationOptions(keys=keys, exclude=("image",)))
    assert transform.bind(INNER).observation["0"]["x"].low.tolist() == [-1.5, -5.0, -np.inf]
    assert transform.estimation_steps == 0
    result = transform.observation("0", {"x": np.array([3.0, 6.0, 2.0], np.float32)})["x"]
    assert result.tolist() == [1.0, 1.0, 0.5]
    keys = {"x": KeyNormalization(min=(0.0,), max=(4.0,), clip_range=(0.0, 1.0))}
    transform = ObservationNormalization(ObservationNormalizationOptions(keys=keys, exclude=("image",)))
    transform.bind(INNER)
    assert transform.observation("0", {"x": np.array([1.0, 6.0, -2.0], np.float32)})["x"].tolist() == [0.25, 1.0, 0.0]


def test_a_small_spread_around_a_large_offset_keeps_its_precision():
    samples = (1e6 + np.random.default_rng(0).normal(0, 1, (400, 1))).astype(np.float32)
    inner = flat_spaces(spaces.Dict(x=spaces.Box(0, np.inf, (1,), np.float32)), INNER.action["0"])
    transform = ObservationNormalization(ObservationNormalizationOptions())
    transform.bind(inner)
    transform.finish_estimation([transform.collect([{"0": {"x": samples}}])])
    result = transform.observation("0", {"x": samples})["x"]
    wanted = (samples.astype(np.float64) - samples.mean(dtype=np.float64)) / samples.std(dtype=np.float64)
    np.testing.assert_allclose(result, wanted, atol=1e-5)


@pytest.mark.parametrize("n_steps", [7, 700])
def test_saved_statistics_go_on_bit_for_bit(n_steps):
    options = ObservationNormalizationOptions(statistics="running", clip_range=(-3.0, 3.0))

    def stack():
        transforms = [ObservationNormalization(options), ReturnNormalization(ReturnNormalizationOptions())]
        envs = TransformedVectorEnv(_batch(), transforms[0], training=True)
        return transforms, TransformedVectorEnv(envs, transforms[1], training=True)

    (first, one), (second, two) = stack(), stack()
    one.reset([[1], [2], [3]])
    for _ in range(n_steps):
        one.step(_zeros())
    states = json.loads(json.dumps([transform.state_dict() for transform in first], default=np.ndarray.tolist))
    for transform, saved in zip(second, states, strict=True):
        transform.load_state_dict(saved)
    ticks = [envs.reset([[4], [5], [6]]) for envs in (one, two)]
    for _ in range(60):
        assert (ticks[0].groups["0"].observation["x"] == ticks[1].groups["0"].observation["x"]).all()
        assert (ticks[0].reward == ticks[1].reward).all()
        ticks = [envs.step(_zeros()) for envs in (one, two)]
    state = states[0]
    other = ObservationNormalization(ObservationNormalizationOptions(strategy="range-zero-one"))
    with pytest.raises(RequestError, match="other strategy"):
        other.load_state_dict(state)


def bound(shape, **options):
    """A normaliser of x (*shape) that has seen twenty rows, or none with `n=0`."""
    n = options.pop("n", 20)
    transform = ObservationNormalization(ObservationNormalizationOptions(statistics="running", **options))
    space = spaces.Dict(x=spaces.Box(-1e3, 1e3, shape), y=spaces.Box(-1.0, 1.0, (1, 1)))
    transform.bind(flat_spaces(space, spaces.Dict(action=spaces.Discrete(2))))
    if n:
        rng = np.random.default_rng(0)
        transform.observe_reset({"0": {"x": rng.normal(size=(n, *shape)), "y": rng.normal(size=(n, 1, 1))}}, n)
    return transform


@pytest.mark.parametrize("strategy", ["mean-zero-std-one", "range-zero-one"])
@pytest.mark.parametrize(
    ("saved", "axis", "wanted"),
    [((1,), (0,), (3,)), ((), (0,), (3,)), ((3,), (0,), (2,)), ((2, 3), (0,), (3,)), ((1, 3), (0, 2), (3, 3))],
)
def test_saved_statistics_of_another_shape_are_refused_and_change_nothing(strategy, saved, axis, wanted):
    state = bound(saved, strategy=strategy, axis=axis).state_dict()
    other = bound(wanted, strategy=strategy, axis=axis)
    before = json.dumps(other.state_dict(), default=np.ndarray.tolist)
    with pytest.raises(RequestError, match="saved statistics of 'x' do not fit its shape") as caught:
        other.load_state_dict({**state, "estimated": dict(reversed(state["estimated"].items()))})
    assert caught.value.expected == str(wanted)
    assert json.dumps(other.state_dict(), default=np.ndarray.tolist) == before


def test_saved_statistics_are_looked_at_once_their_observation_is_known():
    loaded = ObservationNormalization(ObservationNormalizationOptions(statistics="running"))
    loaded.load_state_dict(bound((1,)).state_dict())
    with pytest.raises(RequestError, match="do not fit its shape"):
        loaded.bind(flat_spaces(spaces.Dict(x=spaces.Box(-1.0, 1.0, (3,))), spaces.Dict(action=spaces.Discrete(2))))


@pytest.mark.parametrize("axis", [(), (0,), (1,), (0, 1, 2)])
def test_saved_statistics_fit_whatever_their_axes(axis):
    state = json.loads(json.dumps(bound((4, 3), axis=axis).state_dict(), default=np.ndarray.tolist))
    again = bound((4, 3), axis=axis, n=0)
    again.load_state_dict(state)
    assert json.dumps(again.state_dict(), default=np.ndarray.tolist) == json.dumps(state)


def test_statistics_of_a_file_that_stand_for_all_numbers_are_loaded_again(tmp_path):
    file = tmp_path / "numbers.json"
    file.write_text('{"x": {"mean": [2.0], "std": 4.0}, "y": {"mean": 0.0, "std": 1.0}}')
    first, again = (bound((3,), n=0, statistics_from=str(file)) for _ in range(2))
    assert first.take_stored_statistics()
    again.load_state_dict(first.state_dict())
    assert again.observation("0", {"x": np.full((1, 3), 6.0), "y": np.zeros((1, 1, 1))})["x"].tolist() == [[1.0] * 3]


def test_options_that_name_nothing_are_refused():
    for options in (
        ObservationNormalizationOptions(exclude=("y",)),
        ObservationNormalizationOptions(keys={"gear": KeyNormalization(strategy="range-zero-one")}),
        ObservationNormalizationOptions(axis=(0, 5)),
        ObservationNormalizationOptions(keys={"x": KeyNormalization(mean=(1.0, 2.0), std=(1.0, 1.0))}),
    ):
        with pytest.raises(MazeError):
            ObservationNormalization(options).bind(INNER)
    for wrong in ({"mean": (1.0,)}, {"mean": (1.0,), "std": (1.0,), "min": (0.0,), "max": (1.0,)}):
        with pytest.raises(ValueError, match=r"together|not both"):
            KeyNormalization(**wrong)


def test_return_normalization_divides_by_the_spread_of_running_returns():
    transform = ReturnNormalization(ReturnNormalizationOptions(gamma=0.9, clip_range=(-0.5, 2.0)))
    envs, plain = TransformedVectorEnv(_batch(), transform, training=True), _batch()
    envs.reset([[1], [2], [3]])
    plain.reset([[1], [2], [3]])
    returns, seen = np.zeros(3), []
    for _ in range(50):
        tick, raw = envs.step(_zeros()), plain.step(_zeros())
        returns = 0.9 * returns + raw.reward
        seen += returns.tolist()
        returns[raw.terminated | raw.truncated] = 0.0
        wanted = np.clip(raw.reward / np.sqrt(np.var(seen) + 1e-8), -0.5, 2.0)
        np.testing.assert_allclose(tick.reward, wanted, rtol=1e-5)
    copy = ReturnNormalization(transform.options)
    copy.load_state_dict(transform.state_dict())
    assert copy.reward(np.float64(1.0)) == transform.reward(np.float64(1.0))


@pytest.mark.parametrize("images", [True, False])
def test_images_may_be_left_alone_and_training_is_told_what_is_scaled(images):
    rooms = flat_spaces(
        spaces.Dict(
            x=spaces.Box(-1, 1, (3,)), camera=spaces.Box(0, 255, (6, 6, 3), np.uint8), grid=spaces.Box(0, 9, (4, 4))
        ),
        spaces.Dict(steer=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(3)),
    )
    seen = ObservationNormalization(ObservationNormalizationOptions(statistics="running", images=images))
    outer = seen.bind(rooms).observation["0"]
    assert (outer["camera"].dtype == np.float32) == images
    assert outer["x"].high[0] == outer["grid"].high[0, 0] == np.inf
    assert seen.changes("observation")
    assert seen.keeps_running_statistics
    assert seen.notes == (f"x, {'camera, ' if images else ''}grid scaled by running statistics",)
    paid = ReturnNormalization(ReturnNormalizationOptions())
    assert paid.bind(rooms) == rooms
    assert paid.changes("reward")
    assert "returns" in paid.notes[0]


def test_rewards_are_scaled_and_clipped_alone_and_in_batches():
    rewards = np.array([-5.0, -0.1, 0.0, 3.0])
    scaling = RewardScaling(RewardScalingOptions(scale=0.5))
    clipping = RewardClipping(RewardClippingOptions(min_val=-1.0, max_val=2.0))
    assert scaling.reward(rewards).tolist() == [-2.5, -0.05, 0.0, 1.5]
    assert clipping.reward(rewards).tolist() == [-1.0, -0.1, 0.0, 2.0]
    for transform in (scaling, clipping):
        batch = TransformedVectorEnv(_batch(2), transform, training=True)
        singles = SequentialVectorEnv([lambda transform=transform: TransformedEnv(Noise(), transform)] * 2)
        batch.reset([[1], [2]])
        singles.reset([[1], [2]])
        for _ in range(10):
            np.testing.assert_allclose(batch.step(_zeros(2)).reward, singles.step(_zeros(2)).reward, rtol=1e-6)


def test_a_time_limit_truncates_and_keeps_the_final_observation():
    class Endless(Noise):
        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, False, info

    envs = SequentialVectorEnv([lambda: TimeLimit(Endless(), TimeLimitOptions(max_episode_steps=4))] * 2)
    envs.reset([[1], [2]])
    flags = [
        (tick.truncated.tolist(), bool(tick.final_observation)) for tick in (envs.step(_zeros(2)) for _ in range(8))
    ]
    assert flags == [([index % 4 == 3] * 2, index % 4 == 3) for index in range(8)]
    unlimited = SequentialVectorEnv([lambda: TimeLimit(Endless(), TimeLimitOptions(max_episode_steps=0))])
    unlimited.reset([[1]])
    assert not any(unlimited.step(_zeros(1)).truncated.any() for _ in range(20))


class HalfRange(RunningRange):
    """A strategy of one's own: (x − middle) / half of the range."""

    @property
    def offset_and_scale(self):
        low, width = super().offset_and_scale
        return low + width / 2, width / 2


def test_a_strategy_of_ones_own_is_taken_by_import_path(monkeypatch):
    import sys
    import types

    module = types.ModuleType("my_strategies")
    module.HalfRange = HalfRange
    monkeypatch.setitem(sys.modules, "my_strategies", module)
    options = ObservationNormalizationOptions(strategy="my_strategies:HalfRange", exclude=("image",))
    transform = ObservationNormalization(options)
    done = []
    estimate_transforms([transform], _batch, seed=0, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == 1.0
    transform.bind(INNER)
    envs = TransformedVectorEnv(_batch(), transform, training=True)
    rows = [envs.reset([[5], [6], [7]]).groups["0"].observation["x"]]
    rows += [envs.step(_zeros()).groups["0"].observation["x"] for _ in range(50)]
    assert 0.9 < np.concatenate(rows)[:, :2].max() < 1.1
    again = ObservationNormalization(options)
    again.bind(INNER)
    again.load_state_dict(json.loads(json.dumps(transform.state_dict(), default=np.ndarray.tolist)))
    probe = {"x": np.array([0.5, 4.0, 9.0], np.float32)}
    assert (again.observation("0", probe)["x"] == transform.observation("0", probe)["x"]).all()
    with pytest.raises(RequestError, match="there is no module nowhere"):
        ObservationNormalization(ObservationNormalizationOptions(strategy="nowhere:Nothing")).bind(INNER)
    with pytest.raises(ValueError, match="range-zero-one"):
        ObservationNormalizationOptions(strategy="mean")


def test_without_any_statistics_observations_stay_as_they_are():
    options = ObservationNormalizationOptions(statistics="running", clip_range=(-3.0, 3.0), exclude=("image",))
    transform = ObservationNormalization(options)
    transform.bind(INNER)
    seen = {"x": np.array([1.5, 9.75, -1000.0], np.float32)}
    assert transform.observation("0", seen)["x"].tolist() == [1.5, 9.75, -1000.0]
    envs, plain = TransformedVectorEnv(_batch(), transform, training=False), _batch()
    for _ in range(3):
        rows = [batch.reset([[1], [2], [3]]).groups["0"].observation["x"] for batch in (envs, plain)]
        np.testing.assert_array_equal(*rows)
    transform.observe_reset({"0": {"x": np.zeros((3, 3)) + np.arange(3)[:, None]}}, 3)
    assert np.abs(transform.observation("0", seen)["x"]).max() == 3.0
