"""Promise 14: every way to batch and to reset environments gives the same valid transitions."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

sys.path.insert(0, str(Path(__file__).parent))

from counting import ENDS, Counting, CountingBatch

from maze_gym.env import GymEnv
from maze_gym.native_vector import NativeVectorEnv, make_vector_env
from maze_gym.options import GymOptions
from maze_kernel.contracts.env import FLAT_KEY
from maze_kernel.contracts.transform import Transform
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv

N = 4
PER_ENV = 25
MODES = list(AutoresetMode)


def _factories(reuse: bool = False):
    return [partial(Counting, index, reuse) for index in range(N)]


def _sequential():
    return SequentialVectorEnv(
        [lambda make=make: GymEnv(make(), action_mask="none") for make in _factories(reuse=True)]
    )


def _batched(mode):
    return NativeVectorEnv(CountingBatch(N, mode), action_mask="none")


def _sync(mode):
    return NativeVectorEnv(SyncVectorEnv(_factories(), autoreset_mode=mode), action_mask="none")


def _async(mode):
    return NativeVectorEnv(AsyncVectorEnv(_factories(), autoreset_mode=mode), action_mask="none")


BUILDERS = {
    "sequential": _sequential,
    **{f"batched-{mode.name}": partial(_batched, mode) for mode in MODES},
    **{f"sync-{mode.name}": partial(_sync, mode) for mode in MODES},
    **{f"async-{mode.name}": partial(_async, mode) for mode in MODES},
}


def _action(row) -> int:
    """Depends on the observation alone, so that void decisions leave no trace."""
    return int(row.sum()) % 5


def transitions(vector_env, per_env: int = PER_ENV):
    """By environment: (observation, action, reward, terminated, truncated, next or final observation)."""
    result = [[] for _ in range(vector_env.n_envs)]
    tick = vector_env.reset([[index] for index in range(vector_env.n_envs)])
    while min(map(len, result)) < per_env:
        before = tick.groups[FLAT_KEY].observation["observation"].copy()
        actions = np.array([_action(row) for row in before])
        void = tick.awaiting_reset if tick.awaiting_reset is not None else np.zeros(len(before), bool)
        void = void.copy()
        tick = vector_env.step({FLAT_KEY: {"action": actions}})
        after = tick.groups[FLAT_KEY].observation["observation"].copy()
        for final in tick.final_observation.values():
            after[final.env_index] = final.observation["observation"]
        for index in np.flatnonzero(~void):
            flags = bool(tick.terminated[index]), bool(tick.truncated[index])
            row = tuple(before[index]), int(actions[index]), float(tick.reward[index]), *flags, tuple(after[index])
            result[index].append(row)
        assert not tick.reward[void].any()
        assert not (tick.terminated | tick.truncated)[void].any()
    return [rows[:per_env] for rows in result]


def expected(per_env: int = PER_ENV):
    """The same list, from one environment at a time and nothing of Maze."""
    result = []
    for index in range(N):
        env, rows = Counting(index), []
        observation = env.reset()[0].copy()
        while len(rows) < per_env:
            action = _action(observation)
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((tuple(observation), action, reward, terminated, truncated, tuple(following)))
            observation = (env.reset()[0] if terminated or truncated else following).copy()
        result.append(rows)
    return result


@pytest.mark.parametrize("name", BUILDERS)
def test_all_autoreset_modes_give_the_same_transitions(name: str):
    vector_env = BUILDERS[name]()
    try:
        assert transitions(vector_env) == expected()
    finally:
        vector_env.close()


class _Recording(Transform):
    """Remembers what running statistics would see."""

    def __init__(self) -> None:
        self.seen: list[tuple] = []
        self.n_valid = 0
        self.rewards = 0.0

    def observe_reset(self, observation, n_envs):
        self.seen += [tuple(row) for row in observation[FLAT_KEY]["observation"]]

    def observe_step(self, observation, reward, ended, valid=None):
        self.seen += [tuple(row) for row in observation[FLAT_KEY]["observation"]]
        valid = np.ones(len(reward), bool) if valid is None else valid
        self.n_valid += int(valid.sum())
        self.rewards += float(reward[valid].sum())


@pytest.mark.parametrize("name", BUILDERS)
def test_a_step_that_only_resets_never_reaches_a_normaliser(name: str):
    recording = _Recording()
    vector_env = TransformedVectorEnv(BUILDERS[name](), recording, training=True)
    try:
        tick = vector_env.reset([[0]] * N)
        void_steps, rewards = 0, 0.0
        for _ in range(30):
            void_steps += 0 if tick.awaiting_reset is None else int(tick.awaiting_reset.sum())
            rows = tick.groups[FLAT_KEY].observation["observation"]
            tick = vector_env.step({FLAT_KEY: {"action": np.array([_action(row) for row in rows])}})
            rewards += float(tick.reward.sum())
    finally:
        vector_env.close()
    assert recording.seen
    # Each observation of each episode exactly once: first, in between, and last.
    assert len(set(recording.seen)) == len(recording.seen)
    lengths = {index: [ENDS[(index + episode) % len(ENDS)][1] for episode in range(40)] for index in range(N)}
    for start, episode, step in recording.seen:
        assert step <= lengths[int(start)][int(episode)]
        assert step == 0 or (start, episode, step - 1) in recording.seen
    assert recording.n_valid == 30 * N - void_steps
    assert recording.rewards == rewards


def test_cartpole_native_equals_its_transitions_one_by_one():
    """The native batch must be right about time limits: it truncates exactly where a single environment would."""
    vector_env = make_vector_env(3, GymOptions(id="CartPole-v1", max_episode_steps=7))
    tick = vector_env.reset([[5]] * 3)
    lengths, steps, truncations = [], np.zeros(3, int), 0
    for _ in range(60):
        void = tick.awaiting_reset.copy() if tick.awaiting_reset is not None else np.zeros(3, bool)
        tick = vector_env.step({FLAT_KEY: {"action": np.arange(3) % 2}})
        steps[~void] += 1
        assert (tick.reward[~void] == 1).all()
        assert (tick.reward[void] == 0).all()
        for index in np.flatnonzero(tick.terminated | tick.truncated):
            truncations += int(tick.truncated[index])
            lengths.append(int(steps[index]))
            steps[index] = 0
    assert truncations
    assert max(lengths) == 7


class SmallerScreens(gymnasium.vector.VectorEnv):
    """A batch that prepares what its single environments leave as it is."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs, **kwargs):
        self.num_envs = num_envs
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (84, 84), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(2)


def test_a_batch_that_shows_something_else_is_declined():
    made = {"entry_point": lambda: gymnasium.make("CartPole-v1"), "vector_entry_point": SmallerScreens}
    gymnasium.register("Screens-v0", **made)
    try:
        assert make_vector_env(2, GymOptions(id="Screens-v0")) is None
    finally:
        del gymnasium.registry["Screens-v0"]


def _fails(num_envs, **kwargs):
    return len(num_envs)


def test_what_the_constructor_of_a_batch_raises_is_not_taken_for_want_of_one():
    gymnasium.register("Fails-v0", entry_point=lambda: gymnasium.make("CartPole-v1"), vector_entry_point=_fails)
    try:
        with pytest.raises(TypeError, match="has no len"):
            make_vector_env(2, GymOptions(id="Fails-v0"))
    finally:
        del gymnasium.registry["Fails-v0"]


def test_a_batch_without_native_form_is_declined():
    assert make_vector_env(2, GymOptions(id="Pendulum-v1")) is None
    assert make_vector_env(2, GymOptions(id="CartPole-v1", kwargs={"no_such": 1})) is None
    env = make_vector_env(2, GymOptions(id="CartPole-v1"))
    assert isinstance(env, NativeVectorEnv)
    assert isinstance(env.env, gymnasium.vector.VectorEnv)
