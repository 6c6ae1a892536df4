"""Environments that return something other than Gymnasium's parts are told which, and what to write instead."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from maze_gym.env import GymEnv
from maze_gym.options import GymVectorOptions
from maze_gym.user_batch import make_env, make_vector_env
from maze_kernel.errors import EnvError

OBSERVATION = np.zeros(2, np.float32)


class Sloppy(gymnasium.Env):
    """Returns what it is given."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, at_reset=(OBSERVATION, {}), at_step=(OBSERVATION, 1.0, False, False, {})):
        self.at_reset, self.at_step = at_reset, at_step

    def reset(self, *, seed=None, options=None):
        return self.at_reset

    def step(self, action):
        return self.at_step


class WithoutSeed(Sloppy):
    def reset(self, options=None):
        return self.at_reset


class ForwardsAll(Sloppy):
    def reset(self, **kwargs):
        raise TypeError("of its own")


@pytest.mark.parametrize(
    ("at_reset", "words"),
    [
        (OBSERVATION, ["observation and info", "received: array([0., 0.]", "help: return observation, info"]),
        (None, ["observation and info", "received: None"]),
        ((OBSERVATION, None), ["the info that its reset returned is not a dict", "received: None"]),
        ((OBSERVATION, {}, 1.0), ["observation and info", "received: 3 values"]),
    ],
)
def test_resets(at_reset, words):
    with pytest.raises(EnvError) as caught:
        GymEnv(Sloppy(at_reset)).reset(seed=1)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("at_step", "words"),
    [
        ((OBSERVATION, 1.0, False, {}), ["received: 4 values", "the older Gym had four: divide done"]),
        ((OBSERVATION, 1.0), ["received: 2 values", "help: return observation, reward, terminated, truncated, info"]),
        (OBSERVATION, ["received: array([0., 0.]"]),
        (None, ["received: None"]),
        ((OBSERVATION, 1.0, False, False, None), ["the info that its step returned is not a dict"]),
    ],
)
def test_steps(at_step, words):
    env = GymEnv(Sloppy(at_step=at_step))
    env.reset(seed=1)
    with pytest.raises(EnvError) as caught:
        env.step({"action": np.zeros(1, np.float32)})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_reset_that_takes_no_seed():
    with pytest.raises(EnvError, match="its reset does not take seed") as caught:
        GymEnv(WithoutSeed()).reset(seed=1)
    assert "received: reset(options=None)" in str(caught.value)


def test_an_error_of_the_environment_itself_stays_what_it_is():
    with pytest.raises(TypeError, match="of its own"):
        GymEnv(ForwardsAll()).reset(seed=1)


ROWS, ZEROS, NO = np.zeros((2, 2), np.float32), np.zeros(2, np.float32), np.zeros(2, np.bool_)


class SloppyBatch(VectorEnv):
    """Returns what it is given, or of a batch of one the first rows of it."""

    def __init__(self, num_envs, at_reset=(ROWS, {}), at_step=(ROWS, ZEROS, NO, NO, {}), mode=AutoresetMode.NEXT_STEP):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = Sloppy.observation_space, spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.at_reset, self.at_step = self._cut(at_reset), self._cut(at_step)

    def reset(self, *, seed=None, options=None):
        return self.at_reset

    def step(self, actions):
        return self.at_step

    def _cut(self, result):
        def cut(array):
            return array[: self.num_envs] if isinstance(array, np.ndarray) and array.ndim else array

        return tuple(cut(part) for part in result) if isinstance(result, tuple) else cut(result)


def play_batch(**kwargs):
    batch = make_vector_env(2, GymVectorOptions(entry=SloppyBatch, kwargs=kwargs))
    batch.reset([[1], [2]])
    batch.step({"0": {"action": np.zeros(2, np.int64)}})


def play_row(**kwargs):
    env = make_env(GymVectorOptions(entry=SloppyBatch, kwargs=kwargs))
    env.reset(seed=1)
    env.step({"action": 0})


@pytest.mark.parametrize("play", [play_batch, play_row])
@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"at_reset": ROWS}, ["its reset did not return observation and info"]),
        ({"at_step": (ROWS, ZEROS, NO, {})}, ["received: 4 values", "the older Gym had four"]),
        ({"at_step": (ROWS, ZEROS, NO, NO, None)}, ["the info that its step returned is not a dict"]),
        ({"at_step": (ROWS, 1.0, NO, NO, {})}, ["the batched reward is not one number an environment", "shape ()"]),
        ({"at_step": (ROWS, ZEROS, NO[:, None], NO, {})}, ["the batched terminated is not one number"]),
        (
            {"at_step": (ROWS, ZEROS, ~NO, NO, {}), "mode": AutoresetMode.SAME_STEP},
            ['infos["final_obs"] is missing', "received: infos with nothing"],
        ),
    ],
)
def test_batches(play, kwargs, words):
    with pytest.raises(EnvError) as caught:
        play(**kwargs)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_batch_whose_observations_have_the_wrong_shape_after_the_reset():
    with pytest.raises(EnvError, match="the batched observation 'observation' does not fit its space") as caught:
        play_batch(at_step=(ROWS[:, :1], ZEROS, NO, NO, {}))
    assert "seed 1, step 1 since reset" in str(caught.value)
    assert caught.value.seed == 1


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ((ROWS[:, :1], ZEROS, NO, NO, {}), ["the batched observation 'observation' does not fit", "shape (2, 1)"]),
        ((ROWS[:1], ZEROS, NO, NO, {}), ["the batched observation 'observation' does not fit", "shape (1, 2)"]),
        ((ROWS, 1.0, NO, NO, {}), ["the batched reward is not one number an environment", "shape ()"]),
        ((ROWS, ZEROS, NO[:1], NO, {}), ["the batched terminated is not one number an environment", "shape (1,)"]),
        ((ROWS, ZEROS, NO, {}), ["its step raised ValueError", "expected 5, got 4"]),
    ],
)
def test_a_batch_that_changes_what_it_returns_after_its_first_step(later, words):
    batch = make_vector_env(2, GymVectorOptions(entry=SloppyBatch))
    batch.reset([[1], [2]])
    batch.step({"0": {"action": np.zeros(2, np.int64)}})
    batch.env.at_step = later
    with pytest.raises(EnvError) as caught:
        batch.step({"0": {"action": np.zeros(2, np.int64)}})
    for word in (*words, "seed 1, step 2 since reset"):
        assert word in str(caught.value)


def test_a_batch_without_the_space_of_one():
    class Bare(VectorEnv):
        def __init__(self, num_envs):
            self.num_envs, self.action_space = num_envs, spaces.MultiDiscrete([2] * num_envs)

    with pytest.raises(EnvError, match="has no single_observation_space and no single_action_space and no observation"):
        make_vector_env(2, GymVectorOptions(entry=Bare))
