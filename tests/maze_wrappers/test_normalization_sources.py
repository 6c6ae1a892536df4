"""Where `observation-normalization` has its statistics from, strategies that are no division, and bounds."""

import json
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import RequestError
from maze_runtime.context_env import estimate_statistics, make_env
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.estimation import estimate_transforms
from maze_runtime.rollout.heuristic import Heuristic
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.train import train
from maze_testing.transforms import check_transform
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.options import KeyNormalization, ObservationNormalizationOptions
from maze_wrappers.running_statistics import RunningMoments

BOX = spaces.Box(np.array([0.0, 0.0], np.float32), np.array([8.0, 2.0], np.float32))
INNER = flat_spaces(spaces.Dict(x=BOX, y=BOX), spaces.Dict(action=spaces.Discrete(2)))


class Walk(FlatEnv):
    """The first feature counts how often action 1 was taken, the second how often 0 was, both modulo."""

    structured_spaces = INNER

    def reset(self, *, seed=None, options=None):
        self.ones = self.zeros = 0
        return self._observe(), {}

    def step(self, action):
        self.ones += int(action["action"])
        self.zeros += 1 - int(action["action"])
        return self._observe(), 0.0, self.ones + self.zeros == 8, False, {}

    def _observe(self):
        value = np.array([self.ones, min(self.zeros, 2)], np.float32)
        return {"x": value, "y": value + np.float32(0.0)}


class Ones(Heuristic):
    """Always action 1, or what the environment that it sees has taken less."""

    def __init__(self, context, *, looks: bool = False):
        super().__init__(context)
        self.looks = looks

    def act_one(self, observation, moment):
        if self.looks:
            assert isinstance(moment.env, Walk)
            return int(moment.env.ones <= moment.env.zeros)
        return 1


class Ranks:
    """Where a value lies among those that were seen, from 0 to 1: no division."""

    def __init__(self, axis=(0,)):
        self.axis = axis
        self.count = 0.0
        self.seen = np.zeros((0, 1))

    def update(self, batch):
        self._add(batch.astype(np.float64))

    def merge(self, other):
        if other.count:
            self._add(other.seen)

    def _add(self, values):
        self.seen = np.sort(np.concatenate([self.seen, values]) if self.count else values, axis=0)
        self.count = float(len(self.seen))

    def normalize(self, values):
        if not self.count:
            return np.zeros_like(values)
        return np.mean(self.seen <= values[..., None, :], axis=-2)

    def bounds(self, low, high):
        return np.zeros_like(low), np.ones_like(high)

    def state_dict(self):
        return {"count": self.count, "seen": self.seen}

    def load_state_dict(self, state):
        self.count, self.seen = float(state["count"]), np.array(state["seen"], np.float64)


class Logs(RunningMoments):
    """log(1 + x) / largest: monotonous, with bounds and a form in torch."""

    def normalize(self, values):
        return np.log1p(values)

    def bounds(self, low, high):
        return self.normalize(low), self.normalize(high)

    def export(self, values):
        return torch.log1p(values)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "walks", sys.modules[__name__])


def batch():
    return SequentialVectorEnv([Walk] * 2)


def estimated(n=64, **options):
    transform = ObservationNormalization(ObservationNormalizationOptions(n_estimation_steps=n, **options))
    transform.bind(INNER)
    estimate_transforms([transform], batch, seed=0)
    return transform


def offset(transform, name="x"):
    return transform.state_dict()["estimated"][name]["mean"]


def test_a_policy_of_ones_own_plays_while_statistics_are_estimated(kernel):
    ones = estimated(sampling_policy=select(kernel, "policy", "walks:Ones"))
    # Decisions are taken on 0 … 7 taken ones, and never on a zero.
    np.testing.assert_allclose(offset(ones), [3.5, 0.0])
    looking = estimated(sampling_policy=select(kernel, "policy", {"use": "walks:Ones", "looks": True}))
    np.testing.assert_allclose(offset(looking), [np.mean([0, 1, 1, 2, 2, 3, 3, 4]), np.mean([0, 0, 1, 1, 2, 2, 2, 2])])
    assert not np.allclose(offset(estimated()), offset(ones))


def test_the_random_policy_by_name_is_the_default(kernel):
    named = estimated(sampling_policy=select(kernel, "policy", "random"))
    np.testing.assert_array_equal(offset(named), offset(estimated()))


@pytest.mark.parametrize("pool", [None, "maze_testing.by_value_pool:ByValuePool"])
def test_an_experiment_names_the_policy(kernel, pool):
    wrapper = {"use": "observation-normalization", "sampling_policy": {"use": "walks:Ones"}, "n_estimation_steps": 128}
    tables = {"name": "walk", "env": {"use": "walks:Walk"}, "wrappers": [wrapper], "trainer": {"use": "ppo"}}
    if pool is not None:
        tables["workers"] = {"use": pool}
    assembly = Assembly(experiment_from_mapping(tables, kernel=kernel), kernel)
    said = []
    (state,) = assembly.estimated_states(said.append)
    np.testing.assert_allclose(state["estimated"]["x"]["mean"], [3.5, 0.0])
    assert said == ["estimating ObservationNormalization from 128 steps of walks:Ones"]


def test_one_entry_covers_every_key_that_has_none_of_its_own():
    keys = {"*": KeyNormalization(min=(0.0,), max=(4.0,)), "y": KeyNormalization(mean=(1.0,), std=(2.0,))}
    transform = ObservationNormalization(ObservationNormalizationOptions(keys=keys))
    transform.bind(INNER)
    assert transform.estimation_steps == 0
    probe = {name: np.array([2.0, 1.0], np.float32) for name in ("x", "y")}
    seen = transform.observation("0", probe)
    assert (seen["x"].tolist(), seen["y"].tolist()) == ([0.5, 0.25], [0.5, 0.0])


# -- files -------------------------------------------------------------------------------------------------------------


def from_file(path, **options):
    transform = ObservationNormalization(ObservationNormalizationOptions(statistics_from=str(path), **options))
    transform.bind(INNER)
    return transform


def test_statistics_of_a_run_are_taken_by_another_one(tmp_path, kernel):
    def experiment(**options):
        wrapper = {"use": "observation-normalization", "n_estimation_steps": 64, **options}
        trainer = {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 8, "batch_size": 8}
        tables = {"name": "walk", "env": {"use": "walks:Walk"}, "wrappers": [wrapper], "trainer": trainer}
        return experiment_from_mapping({**tables, "evaluation": {"n_episodes": 1}}, kernel=kernel)

    train(experiment(), kernel, run_dir=tmp_path / "first", verbosity=-1)
    second = experiment(statistics_from=str(tmp_path / "first"))
    train(second, kernel, run_dir=tmp_path / "second", verbosity=-1)
    first, other = (json.loads((tmp_path / run / "normalization.json").read_text()) for run in ("first", "second"))
    assert first == other
    assert "statistics of x, y are those of" in (tmp_path / "second" / "log.txt").read_text()
    # A run has its own copy: what it was taken from may be gone.
    (tmp_path / "first" / "normalization.json").unlink()
    with pytest.raises(RequestError, match="no statistics in"):
        Assembly(second, kernel).estimated_states()
    resumed = train(second, kernel, resume=tmp_path / "second", verbosity=-1)
    assert resumed.epochs == 1


@pytest.mark.parametrize("statistics", ["estimated", "running"])
def test_a_file_of_another_program_holds_means_or_ranges(tmp_path, statistics):
    file = tmp_path / "numbers.json"
    file.write_text('{"x": {"mean": [1.0, 0.5], "std": [2.0, 0.0]}, "y": {"mean": 1, "std": 4, "count": 100}, "z": {}}')
    transform = from_file(file, statistics=statistics)
    estimate_transforms([transform], batch, seed=0)
    seen = transform.observation("0", {name: np.array([3.0, 1.0], np.float32) for name in ("x", "y")})
    assert (seen["x"].tolist(), seen["y"].tolist()) == ([1.0, 0.5], [0.5, 0.0])
    file.write_text('{"x": {"min": 1, "max": 5}, "y": {"offset": 1.0, "scale": 8.0}}')
    transform = from_file(file, statistics=statistics, strategy="range-zero-one")
    estimate_transforms([transform], batch, seed=0)
    seen = transform.observation("0", {name: np.array([3.0, 1.0], np.float32) for name in ("x", "y")})
    assert (seen["x"].tolist(), seen["y"].tolist()) == ([0.5, 0.0], [0.25, 0.0])


def test_running_statistics_go_on_from_the_file(tmp_path):
    file = tmp_path / "numbers.json"
    file.write_text('{"x": {"mean": 1.0, "std": 2.0, "count": 3}, "y": {"mean": 5.0, "std": 1.0}}')
    transform = from_file(file, statistics="running", n_estimation_steps=4)
    assert transform.take_stored_statistics()
    assert transform.take_stored_statistics() is None
    transform.observe_reset({"0": {"x": np.full((1, 2), 5.0), "y": np.zeros((1, 2))}}, 1)
    np.testing.assert_allclose(offset(transform), [(3 * 1.0 + 5.0) / 4] * 2)
    np.testing.assert_allclose(offset(transform, "y"), [(4 * 5.0 + 0.0) / 5] * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "holds no statistics"),
        ('{"x": 3}', "holds no statistics"),
        ('{"x": {"mean": 0, "std": 1}}', "no statistics of the observation 'y'"),
        ('{"x": {"min": 0, "max": 1}, "y": {"min": 0, "max": 1}}', "do not fit the strategy RunningMoments"),
        ('{"x": {"mean": [0, 1, 2], "std": 1}, "y": {}}', "do not fit its shape"),
        ('{"x": {"mean": "low", "std": 1}, "y": {}}', "are not numbers"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, text, message):
    file = tmp_path / "numbers.json"
    file.write_text(text)
    with pytest.raises(RequestError, match=message) as caught:
        from_file(file).take_stored_statistics()
    assert caught.value.option == "statistics_from"
    assert caught.value.help


# -- strategies that are no division -----------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", ["estimated", "running"])
def test_a_strategy_may_be_any_function(statistics):
    transform = ObservationNormalization(
        ObservationNormalizationOptions(strategy="walks:Ranks", statistics=statistics, clip_range=(0.0, 0.9))
    )
    transform.bind(INNER)
    samples = np.arange(10.0).repeat(2).reshape(10, 2)
    if statistics == "running":
        transform.observe_reset({"0": {"x": samples, "y": samples}}, 10)
    else:
        transform.finish_estimation([transform.collect([{"0": {"x": samples[i::2], "y": samples}}]) for i in range(2)])
    probe = {"x": np.array([[2.5, 8.0], [-1.0, 99.0]]), "y": np.zeros((2, 2))}
    seen = transform.observation("0", probe)["x"]
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, [[0.3, 0.9], [0.0, 0.9]], rtol=1e-6)
    again = ObservationNormalization(transform.options)
    again.bind(INNER)
    again.load_state_dict(json.loads(json.dumps(transform.state_dict(), default=np.ndarray.tolist)))
    np.testing.assert_array_equal(again.observation("0", probe)["x"], seen)
    assert not transform.exports("observation")


def test_a_function_with_a_form_in_torch_is_exported():
    transform = estimated(strategy="walks:Logs")
    assert transform.exports("observation")
    probe = np.array([[0.0, 1.0], [7.5, 2.0]], np.float32)
    exported = transform.export_observation("0", {"x": torch.from_numpy(probe)})["x"]
    np.testing.assert_allclose(exported.numpy(), transform.observation("0", {"x": probe})["x"], rtol=1e-6)
    outer = transform.bind(INNER).observation["0"]["x"]
    np.testing.assert_allclose(outer.high, np.log1p([8.0, 2.0]), rtol=1e-6)


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["mean-zero-std-one", "range-zero-one", "walks:Ranks", "walks:Logs"])
def test_the_space_after_estimation_has_the_bounds_of_what_comes(strategy, kernel):
    wrapper = {"use": "observation-normalization", "strategy": strategy, "n_estimation_steps": 200}
    tables = {"name": "walk", "env": {"use": "walks:Walk"}, "wrappers": [wrapper], "trainer": {"use": "ppo"}}
    assembly = Assembly(experiment_from_mapping(tables, kernel=kernel), kernel)
    assert not assembly.spaces.observation["0"]["x"].is_bounded("both")
    states = assembly.estimated_states()
    known = assembly.spaces.observation["0"]
    assert known["x"].is_bounded("both")
    env = make_env(tables, statistics=states, kernel=kernel)
    assert env.structured_spaces.observation["0"] == known
    for corner in (BOX.low, BOX.high):
        seen = assembly.transforms[0].observation("0", {"x": corner, "y": corner})
        assert known.contains(seen)
    for _ in range(3):
        observation, _ = env.reset()
        while True:
            assert known.contains(observation)
            observation, _, terminated, _, _ = env.step({"action": np.int64(1)})
            if terminated:
                break


def test_bounds_of_a_range_are_its_ends():
    transform = ObservationNormalization(ObservationNormalizationOptions(strategy="range-zero-one"))
    transform.bind(INNER)
    samples = np.array([[2.0, 0.0], [6.0, 2.0]])
    transform.finish_estimation([transform.collect([{"0": {"x": samples, "y": samples}}])])
    outer = transform.bind(INNER).observation["0"]["x"]
    assert (outer.low.tolist(), outer.high.tolist()) == ([-0.5, 0.0], [1.5, 1.0])


def test_statistics_for_other_libraries_name_the_same_sources(tmp_path, kernel):
    (tmp_path / "numbers.json").write_text('{"x": {"mean": 4.0, "std": 2.0}, "y": {"mean": 0.0, "std": 1.0}}')
    wrapper = {"use": "observation-normalization", "statistics_from": str(tmp_path / "numbers.json")}
    (state,) = estimate_statistics(env=Walk, wrappers=[wrapper], kernel=kernel)
    np.testing.assert_allclose(state["estimated"]["x"]["mean"], 4.0)


def test_a_name_with_different_shapes_under_different_keys_has_statistics_of_each():
    inner = StructuredSpaces(
        observation={
            "near": spaces.Dict(x=spaces.Box(-9, 9, (2,)), load=spaces.Box(0, 9, (1,))),
            "far": spaces.Dict(x=spaces.Box(-9, 9, (3,)), load=spaces.Box(0, 9, (1,))),
        },
        action={"near": spaces.Dict(a=spaces.Discrete(2)), "far": spaces.Dict(a=spaces.Discrete(2))},
        agent_counts={"near": 1, "far": 1},
    )
    keys = {"x": KeyNormalization(clip_range=(-1.5, 1.5))}
    options = ObservationNormalizationOptions(statistics="running", keys=keys)
    transform = ObservationNormalization(options)
    outer = transform.bind(inner).observation
    assert [outer[key]["x"].high.tolist() for key in ("near", "far")] == [[9.0, 9.0], [9.0, 9.0, 9.0]]
    rng = np.random.default_rng(0)
    near = {"x": rng.normal(size=(50, 2)), "load": rng.random((50, 1))}
    far = {"x": rng.normal(size=(30, 3)) + 100, "load": rng.random((30, 1)) + 5}
    transform.observe_step({"near": near, "far": far}, np.zeros(80), np.zeros(80, bool))
    state = transform.state_dict()["estimated"]
    assert {name: own["count"] for name, own in state.items()} == {"near/x": 50, "far/x": 30, "load": 80}
    seen = transform.observation("far", far)["x"]
    np.testing.assert_allclose(seen, np.clip((far["x"] - far["x"].mean(0)) / far["x"].std(0), -1.5, 1.5), atol=1e-5)
    loads = np.concatenate([near["load"], far["load"]])
    wanted = (near["load"] - loads.mean()) / loads.std()
    np.testing.assert_allclose(transform.observation("near", near)["load"], wanted, atol=1e-5)
    again = ObservationNormalization(options)
    again.bind(inner)
    again.load_state_dict(transform.state_dict())
    np.testing.assert_array_equal(again.observation("far", far)["x"], seen)
    tensors = {name: torch.from_numpy(rows) for name, rows in far.items()}
    np.testing.assert_allclose(again.export_observation("far", tensors)["x"].numpy(), seen, atol=1e-5)
    check_transform(lambda: ObservationNormalization(options), inner)
