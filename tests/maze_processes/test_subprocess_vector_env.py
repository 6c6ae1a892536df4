"""The subprocess vector environment gives what the sequential one gives, and names what broke."""

import functools
import os

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.errors import EnvError, RequestError, SpaceError
from maze_processes.pool import SubprocessPool
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.workers.inline import InlinePool
from maze_runtime.workers.options import WorkersOptions
from maze_testing.by_value_pool import ByValuePool


class Walk(FlatEnv):
    """Two observation keys, three action heads, random lengths, ends of both kinds; every number depends on all."""

    structured_spaces = flat_spaces(
        spaces.Dict(
            {
                "position": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
                "count": spaces.MultiDiscrete([100, 100]),
                "image": spaces.Box(0, 255, (3,), np.uint8),
            }
        ),
        spaces.Dict(
            {
                "push": spaces.Box(-1, 1, (2,), np.float32),
                "gear": spaces.Discrete(3, start=1),
                "lamps": spaces.MultiBinary(2),
            }
        ),
    )

    def __init__(self, length=4):
        self._length = length
        self._rng = np.random.default_rng(99)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._position = self._rng.normal(size=(2, 2))
        self._t = 0
        return self._observe(), {"begin": seed}

    def step(self, action):
        self._t += 1
        self._position += action["push"] * action["gear"] + action["lamps"].sum() + self._rng.normal()
        ended = self._t >= self._length + self._rng.integers(3)
        terminated = bool(ended and self._rng.random() < 0.5)
        info = {"t": self._t} if self._t == 2 else {}
        return self._observe(), float(self._position.sum()), terminated, bool(ended and not terminated), info

    def _observe(self):
        return {
            "position": self._position,
            "count": np.array([self._t, 2 * self._t]),
            "image": np.full(3, self._t, np.uint8),
        }


class TwoStage(FlatEnv):
    """A structured environment whose two policy keys take turns; environments of a batch fall out of step."""

    structured_spaces = StructuredSpaces(
        observation={
            "first": spaces.Dict({"a": spaces.Box(-9, 9, (2,), np.float32)}),
            "second": spaces.Dict({"b": spaces.Box(-9, 9, (3,), np.float32)}),
        },
        action={
            "first": spaces.Dict({"x": spaces.Discrete(2)}),
            "second": spaces.Dict({"y": spaces.Box(-1, 1, (1,), np.float32)}),
        },
        agent_counts={"first": 1, "second": 2},
    )

    def __init__(self, length):
        self._length = length

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._t = self._stage = 0
        return self._observe(), {}

    def step(self, action):
        value = float(action["x"] if self._stage == 0 else action["y"][0])
        self._t += 1
        self._stage = (self._stage + 1 + int(self._rng.integers(2))) % 3
        return self._observe(), value, self._t == self._length, False, {}

    def actor_id(self):
        return ActorID("first", 0) if self._stage == 0 else ActorID("second", self._stage - 1)

    def is_flat_step_end(self):
        return self._stage == 0

    def get_actor_rewards(self):
        return [0.5, self._t]

    def departed_actors(self):
        return [ActorID("second", self._t % 2)] if self._t % 3 == 0 else ()

    def _observe(self):
        values = self._rng.normal(size=3).astype(np.float32)
        return {"a": values[:2]} if self._stage == 0 else {"b": values}


def _copy(tick):
    def arrays(named):
        return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in named.items()}

    return {
        "groups": {
            key: (group.env_index.tolist(), group.agent_id.tolist(), arrays(group.observation), group.aligned)
            for key, group in tick.groups.items()
        },
        "scalars": [
            None if array is None else (array.dtype.str, array.tobytes())
            for array in (tick.reward, tick.terminated, tick.truncated, tick.flat_step_end, tick.actor_done)
        ],
        "final": {
            key: (final.env_index.tolist(), arrays(final.observation)) for key, final in tick.final_observation.items()
        },
        "actor_rewards": {index: row.tolist() for index, row in tick.actor_rewards.items()},
        "infos": tick.infos,
        "departed": tick.departed,
    }


def _record(vector_env, n_steps=40, n_resets=2):
    """Every tick of some episodes under actions that depend only on the step."""
    ticks = []
    rng = np.random.default_rng(5)
    try:
        for number in range(n_resets):
            seeds = [[100 * number + index, 7 + index] for index in range(vector_env.n_envs)]
            tick = vector_env.reset(seeds)
            ticks.append(_copy(tick))
            for _ in range(n_steps):
                tick = vector_env.step(_actions(rng, vector_env, tick))
                ticks.append(_copy(tick))
    finally:
        vector_env.close()
    return ticks


def _actions(rng, vector_env, tick):
    def sample(space, n):
        if isinstance(space, spaces.Discrete):
            return space.start + rng.integers(space.n, size=n)
        if isinstance(space, spaces.MultiBinary):
            return rng.integers(2, size=(n, *space.shape)).astype(np.int8)
        return rng.uniform(-1, 1, size=(n, *space.shape)).astype(np.float32)

    return {
        key: {
            name: sample(leaf, len(group.env_index))
            for name, leaf in vector_env.structured_spaces.action[key].spaces.items()
        }
        for key, group in tick.groups.items()
    }


@pytest.mark.parametrize("n_processes", [1, 2, 9])
def test_flat_transitions_equal_those_of_the_sequential_batch_bit_for_bit(n_processes):
    factories = [functools.partial(Walk, 2 + index) for index in range(5)]
    expected = _record(SequentialVectorEnv(factories, keep_infos=True))
    assert _record(SubprocessVectorEnv(factories, n_processes, keep_infos=True)) == expected
    assert any(tick["final"] for tick in expected)


@pytest.mark.parametrize("pool_type", [InlinePool, ByValuePool])
def test_the_same_on_any_pool(pool_type):
    factories = [functools.partial(Walk, 2 + index) for index in range(5)]
    assert _record(SubprocessVectorEnv(factories, 2, pool_type())) == _record(SequentialVectorEnv(factories))


@pytest.mark.parametrize("pool_type", [InlinePool, ByValuePool, SubprocessPool])
def test_structured_transitions_equal_those_of_the_sequential_batch(pool_type):
    factories = [functools.partial(TwoStage, 3 + index) for index in range(5)]
    expected = _record(SequentialVectorEnv(factories))
    with pool_type(WorkersOptions()) as pool:
        assert _record(SubprocessVectorEnv(factories, 2, pool)) == expected


def test_a_tick_outlives_the_next_one():
    vector_env = SubprocessVectorEnv([Walk, Walk], 2)
    rng = np.random.default_rng(0)
    first = vector_env.reset([[1], [2]])
    kept = _copy(first)
    vector_env.step(_actions(rng, vector_env, first))
    assert _copy(first) == kept
    vector_env.close()


def test_different_spaces_in_different_processes_are_refused():
    from maze_testing.environments import Identity

    factories = [functools.partial(Identity, kind="discrete"), functools.partial(Identity, kind="box")]
    with pytest.raises(SpaceError, match="environment 1"):
        SubprocessVectorEnv(factories, 2)


def test_replacement_without_shared_memory_is_refused():
    with pytest.raises(RequestError, match="without shared memory"):
        SubprocessVectorEnv([Walk], 1, ByValuePool(), max_restarts=1)


def test_errors_without_shared_memory_name_the_environment():
    class Bad(Walk):
        def step(self, action):
            raise ValueError("out of paper")

    vector_env = SubprocessVectorEnv([Walk, Walk, Walk, Bad], 2, ByValuePool())
    tick = vector_env.reset([[seed] for seed in range(4)])
    with pytest.raises(EnvError, match="out of paper") as caught:
        vector_env.step(_actions(np.random.default_rng(0), vector_env, tick))
    assert "environment 3" in caught.value.owner


def test_replacement_of_structured_environments_is_refused():
    with pytest.raises(RequestError, match="max_restarts"):
        SubprocessVectorEnv([functools.partial(TwoStage, 3)], 1, max_restarts=1)


class Dying(Walk):
    """Leaves its process at its fourth step, once."""

    def __init__(self, mark):
        super().__init__(length=50)
        self._mark = mark
        self._n = 0

    def step(self, action):
        self._n += 1
        if self._n == 4 and not os.path.exists(self._mark):
            open(self._mark, "w").close()
            os._exit(3)
        return super().step(action)


def test_a_replaced_worker_cuts_its_episodes_and_no_others(tmp_path):
    mark = str(tmp_path / "died")
    factories = [functools.partial(Walk, 50)] * 2 + [functools.partial(Dying, mark), functools.partial(Walk, 50)]
    messages = []
    vector_env = SubprocessVectorEnv(factories, 2, max_restarts=1, on_message=messages.append)
    rng = np.random.default_rng(0)
    tick = vector_env.reset([[1], [2], [3, 30], [4]])
    for number in range(8):
        before = {name: array.copy() for name, array in tick.groups["0"].observation.items()}
        tick = vector_env.step(_actions(rng, vector_env, tick))
        assert tick.truncated.tolist() == [False, False, number == 3, number == 3]
        assert not tick.terminated.any()
        if number == 3:
            final = tick.final_observation["0"]
            assert final.env_index.tolist() == [2, 3]
            np.testing.assert_array_equal(final.observation["position"], before["position"][2:])
            assert tick.reward[2:].tolist() == [0.0, 0.0]
            # The episode after the one that was cut has the next seed of its own list.
            expected = np.random.default_rng(30).normal(size=(2, 2))
            np.testing.assert_array_equal(tick.groups["0"].observation["position"][2], expected)
    vector_env.close()
    (message,) = messages
    assert "exited with code 3" in message
    assert "environment 2, in its step, episode 0 (seed 3), step 4" in message


def test_errors_name_the_environment_of_the_whole_batch():
    class Bad(Walk):
        def step(self, action):
            raise ZeroDivisionError("no wheels")

    vector_env = SubprocessVectorEnv([Walk, Walk, Walk, Bad], 2)
    tick = vector_env.reset([[1], [2], [3], [44]])
    with pytest.raises(EnvError, match="ZeroDivisionError: no wheels") as caught:
        vector_env.step(_actions(np.random.default_rng(0), vector_env, tick))
    vector_env.close()
    assert caught.value.owner.startswith("environment 3, episode 0 (seed 44), step 1, process ")
    assert 'raise ZeroDivisionError("no wheels")' in caught.value.remote_traceback
