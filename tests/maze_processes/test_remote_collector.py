"""Workers that collect rollouts by themselves: the same as collectors of their slices, and as loud when they fail."""

import contextlib
import functools
import threading
import time

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, MazeWarning, NonFiniteError
from maze_kernel.loader import Kernel
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.models.policy_wrapper import PolicyWrapper
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.collector import Collector, collector_for
from maze_runtime.rollout.remote_collector import RemoteCollector
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_testing.by_value_pool import ByValuePool

N_STEPS, N_ENVS = 12, 5


class Drift(FlatEnv):
    """A random walk pushed by the action; episodes of 3 to 6 steps end in both ways. May fail at a step."""

    structured_spaces = flat_spaces(
        spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (3,), np.float32)}),
        spaces.Dict({"push": spaces.Discrete(3)}),
    )

    def __init__(self, failure=None):
        self._failure = failure
        self._n_steps = 0

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._place, self._left = self._rng.normal(size=3).astype(np.float32), int(self._rng.integers(3, 7))
        return {"place": self._place.copy()}, {}

    def step(self, action):
        self._n_steps += 1
        if self._n_steps == 4 and self._failure == "raise":
            raise ValueError("the bridge is out")
        if self._n_steps == 4 and self._failure == "hang":
            time.sleep(600)
        self._place += (self._rng.normal(size=3) + action["push"] - 1).astype(np.float32)
        self._left -= 1
        ended, kind = self._left == 0, bool(self._rng.random() < 0.5)
        reward = np.nan if self._n_steps == 4 and self._failure == "nan" else float(self._place.sum())
        return {"place": self._place.copy()}, reward, ended and kind, ended and not kind, {}


class Halve(Transform):
    def observation(self, policy_key, observation):
        return {name: array * np.float32(0.5) for name, array in observation.items()}

    def reward(self, reward):
        return reward * np.float32(0.5)


class Estimated(Halve):
    def state_dict(self):
        return {"factor": 0.5}


class Counting(Transform):
    def observe_step(self, *arguments):
        pass


@pytest.fixture(scope="module")
def model():
    kernel = Kernel.installed()
    chosen = select(kernel, "model", kernel.catalog.default("model").component.name)
    context = ModelContext(spaces=Drift.structured_spaces, catalog=kernel.catalog, seed=3)
    return kernel.catalog.build(chosen, context)


def _batch(failure=None, **options):
    factories = [Drift] * (N_ENVS - 1) + [functools.partial(Drift, failure)]
    return SubprocessVectorEnv(factories, 2, **options)


def _wrapped(vector_env, *transforms):
    vector_env = BatchGuard(vector_env)
    for transform in transforms:
        vector_env = TransformedVectorEnv(vector_env, transform, training=True)
    return vector_env


def _collector(batch, model, *transforms):
    vector_env = _wrapped(batch, *transforms)
    return collector_for(vector_env, NetworkPolicy(model, 7), FlatParameters(model), N_STEPS)


def _buffer(n_envs=N_ENVS):
    return RolloutBuffer(Drift.structured_spaces, "0", N_STEPS, n_envs)


def test_each_worker_collects_what_a_collector_of_its_slice_collects(model):
    batch = _batch()
    seeds = [[100 + index] for index in range(N_ENVS)]
    remote = _collector(batch, model, Halve())
    assert isinstance(remote, RemoteCollector)
    remote.reset(seeds)
    slices = []
    for first, last, seed in zip((0, 2), (2, 5), NetworkPolicy(model, 7).draw_seeds(2), strict=True):
        own = Collector(_wrapped(SequentialVectorEnv([Drift] * (last - first)), Halve()), NetworkPolicy(model, seed))
        own.reset(seeds[first:last])
        slices.append((slice(first, last), own, _buffer(last - first)))
    whole = _buffer()
    cut = 0
    for _ in range(3):
        remote.collect(whole)
        expected_truncations = {}
        for rows, collector, part in slices:
            collector.collect(part)
            for name, array in part.columns().items():
                seen = whole.columns()[name]
                np.testing.assert_array_equal(seen[:, rows] if name in part.time_major else seen[rows], array)
            for step, index, observation in part.truncations:
                expected_truncations |= {
                    (step, int(row) + rows.start): place for row, place in zip(index, observation["place"], strict=True)
                }
        seen_truncations = {
            (step, int(row)): place
            for step, index, observation in whole.truncations
            for row, place in zip(index, observation["place"], strict=True)
        }
        assert seen_truncations.keys() == expected_truncations.keys()
        assert all((seen_truncations[place] == row).all() for place, row in expected_truncations.items())
        cut += len(seen_truncations)
        counts = [collector.statistics.drain()["BaseEnvEvents/episode_count"] for _, collector, _ in slices]
        assert remote.statistics.drain()["BaseEnvEvents/episode_count"] == sum(counts)
    assert cut > 0
    assert remote.env_steps == 3 * N_STEPS * N_ENVS
    batch.close()


@pytest.mark.slow
def test_without_shared_memory_the_same_is_collected(model):
    rollouts = []
    for pool in (None, ByValuePool()):
        batch = _batch(pool=pool)
        remote = _collector(batch, model, Halve())
        assert isinstance(remote, RemoteCollector)
        remote.reset([[100 + index] for index in range(N_ENVS)])
        buffer = _buffer()
        for _ in range(2):
            remote.collect(buffer)
        truncations = sorted((step, *index, *places["place"].ravel()) for step, index, places in buffer.truncations)
        rollouts.append(({name: array.tolist() for name, array in buffer.columns().items()}, truncations))
        batch.close()
    assert rollouts[0] == rollouts[1]


@pytest.mark.slow
def test_new_weights_reach_the_workers_before_the_next_rollout(model):
    batch = _batch()
    parameters = FlatParameters(model)
    remote = collector_for(_wrapped(batch), NetworkPolicy(model, 7), parameters, N_STEPS)
    remote.reset([[index] for index in range(N_ENVS)])
    buffer = _buffer()
    before = parameters.data.clone()
    bias = [parameter for parameter in model.policies.parameters() if parameter.shape == (3,)][-1]
    try:
        for favourite in (0, 2):
            bias.data.fill_(-1e4)
            bias.data[favourite] = 1e4
            remote.collect(buffer)
            assert (buffer.action["push"] == favourite).all()
    finally:
        parameters.data.copy_(before)
        batch.close()


@pytest.mark.slow
def test_a_raising_environment_is_named(model):
    batch = _batch("raise")
    remote = _collector(batch, model)
    remote.reset([[index] for index in range(N_ENVS)])
    with pytest.raises(EnvError, match="the bridge is out") as caught:
        remote.collect(_buffer())
    assert "environment 4" in caught.value.owner
    assert "process" in caught.value.owner
    batch.close()


@pytest.mark.slow
def test_a_number_that_is_not_finite_is_named(model):
    batch = _batch("nan")
    remote = _collector(batch, model)
    remote.reset([[index] for index in range(N_ENVS)])
    with pytest.raises(NonFiniteError, match="environment 4"):
        remote.collect(_buffer())
    batch.close()


@pytest.mark.slow
def test_a_hanging_environment_is_named_and_killed(model):
    batch = _batch("hang", timeout_seconds=15.0)
    remote = _collector(batch, model)
    remote.reset([[index] for index in range(N_ENVS)])
    with pytest.raises(EnvError) as caught:
        remote.collect(_buffer())
    assert "environment 4, in its step" in caught.value.owner
    assert "step 4" in caught.value.owner or "episode 1" in caught.value.owner
    batch.close()


@pytest.mark.slow
def test_where_something_must_see_whole_steps_they_are_taken_one_by_one(model):
    for batch, transforms in ((_batch(), [Counting()]), (_batch(max_restarts=1), [])):
        assert isinstance(_collector(batch, model, *transforms), Collector)
        batch.close()
    with contextlib.closing(_batch()) as batch:
        assert isinstance(_collector(batch, model, Estimated()), RemoteCollector)
    assert isinstance(_collector(SequentialVectorEnv([Drift]), model), Collector)


@pytest.mark.slow
def test_a_policy_with_rules_around_it_is_not_taken_for_its_network(model):
    with contextlib.closing(_batch()) as batch:
        ruled = PolicyWrapper(NetworkPolicy(model, 7))
        assert isinstance(collector_for(_wrapped(batch), ruled, FlatParameters(model), N_STEPS), Collector)


@pytest.mark.slow
def test_a_model_that_cannot_be_sent_decides_here_and_it_is_said(model, monkeypatch):
    policy = NetworkPolicy(model, 7)
    monkeypatch.setattr(policy, "model", threading.Lock())
    with contextlib.closing(_batch()) as batch, pytest.warns(MazeWarning, match="cannot be sent .*pickle"):
        assert isinstance(collector_for(_wrapped(batch), policy, FlatParameters(model), N_STEPS), Collector)
