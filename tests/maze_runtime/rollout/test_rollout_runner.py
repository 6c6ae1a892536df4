"""The engine of `maze rollout`: same results for any number of workers, no episode missing, right statistics."""

import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from maze_kernel.errors import EnvError, MazeWarning, RequestError
from maze_processes.pool import SubprocessPool
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.episodes import LONG_EPISODE, run_episodes
from maze_runtime.rollout.runner import EpisodePlayer, describe_sample, play_episodes, summarize
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.workers.inline import InlinePool
from maze_runtime.workers.options import WorkersOptions


class Dice(FlatEnv):
    """Episode length and rewards follow from the seed; seeds divisible by `fails_at` fail in their second step."""

    def __init__(self, fails_at=None):
        self.structured_spaces = flat_spaces(
            spaces.Dict({"observation": spaces.Box(-10, 10, (1,), np.float32)}),
            spaces.Dict({"action": spaces.Discrete(3)}),
        )
        self.fails_at = fails_at

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.seed, self.rng = seed, np.random.default_rng(seed)
        self.left = int(self.rng.integers(3, 9))
        return {"observation": np.zeros(1, np.float32)}, {}

    def step(self, action):
        self.left -= 1
        if self.fails_at and self.seed % self.fails_at == 0:
            raise ArithmeticError("the simulation broke")
        reward = float(self.rng.normal()) + int(action["action"])
        return {"observation": np.zeros(1, np.float32)}, reward, self.left == 0, False, {}


class Guesses:
    """Uniform actions from its own stream."""

    def __init__(self, seed):
        self.seed(seed)

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def begin_episodes(self, env_index):
        return None

    def act(self, policy_key, group, *, deterministic=False):
        return {"action": self.rng.integers(0, 3, len(group.env_index))}


def dice():
    return SequentialVectorEnv([Dice])


def broken_dice():
    return SequentialVectorEnv([lambda: Dice(fails_at=5)])


SEEDS = [1, 5, 3, 12, 10, 7]


def test_results_do_not_depend_on_the_pool_or_the_number_of_workers():
    player = EpisodePlayer(make_env=dice, make_policy=Guesses)
    with InlinePool(WorkersOptions(count=1)) as pool:
        alone = play_episodes(pool, player, SEEDS)
    with InlinePool(WorkersOptions(count=4)) as pool:
        together = play_episodes(pool, player, SEEDS)
    with SubprocessPool(WorkersOptions(count=2)) as pool:
        elsewhere = play_episodes(pool, player, SEEDS)
    assert alone == together == elsewhere
    assert [result.seed for result in alone] == SEEDS


def test_an_episode_is_the_same_whatever_was_played_before():
    player = EpisodePlayer(make_env=dice, make_policy=Guesses)
    with InlinePool(WorkersOptions(count=1)) as pool:
        (single,) = play_episodes(pool, player, [12])
        assert play_episodes(pool, player, SEEDS)[3] == single


def test_a_failing_episode_is_reported_with_its_seed_and_the_others_are_played():
    seen = []
    player = EpisodePlayer(make_env=broken_dice, make_policy=Guesses)
    with InlinePool(WorkersOptions(count=2)) as pool:
        results = play_episodes(pool, player, SEEDS, on_result=seen.append)
    failed = [result for result in results if result.error is not None]
    assert [result.seed for result in failed] == [5, 10]
    assert all("the simulation broke" in result.error for result in failed)
    summary = summarize(results)
    assert (summary["n_episodes"], summary["n_failed"]) == (6, 2)
    assert np.isfinite(summary["reward"]["mean"])
    assert len(seen) == 6


def refuses_to_be_built(_seed):
    raise RequestError("the policy does not fit", help="take another")


@pytest.mark.parametrize("make_pool", [InlinePool, SubprocessPool])
def test_what_cannot_be_built_as_was_asked_is_one_error_of_all_episodes(make_pool):
    player = EpisodePlayer(make_env=dice, make_policy=refuses_to_be_built)
    with make_pool(WorkersOptions(count=2)) as pool, pytest.raises(RequestError, match="does not fit") as caught:
        play_episodes(pool, player, SEEDS)
    assert caught.value.help == "take another"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 20])
def test_statistics_equal_those_of_numpy_and_scipy(size):
    values = np.random.default_rng(size).normal(size=size)
    got = describe_sample(list(values))
    assert got["mean"] == pytest.approx(np.mean(values))
    assert got["std"] == pytest.approx(np.std(values))
    assert got["median"] == pytest.approx(np.median(values))
    assert got["iqm"] == pytest.approx(stats.trim_mean(values, 0.25))
    assert (got["min"], got["max"]) == (values.min(), values.max())


def test_no_value_has_no_statistics():
    assert describe_sample([]) is None


class Endless(Dice):
    """The second episode of each environment never ends."""

    episode = 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        observation, info = super().reset(seed=seed, options=options)
        self.left = 3 if self.episode == 1 else -1
        return observation, info

    def step(self, action):
        if self.episode > 1 and self.left < -2 * LONG_EPISODE - 10:
            raise ArithmeticError("played long enough")
        return super().step(action)


def test_who_waits_for_an_endless_episode_is_told_once():
    vector_env = SequentialVectorEnv([Endless] * 2)
    with (
        pytest.warns(RuntimeWarning, match="if nothing ever ends it") as caught,
        pytest.raises(EnvError, match="long enough"),
    ):
        run_episodes(vector_env, Guesses(0), [1, 2, 3, 4], deterministic=True)
    assert len([one for one in caught if one.category is MazeWarning]) == 1


@pytest.mark.filterwarnings("error")
def test_episodes_that_are_cut_are_no_endless_ones():
    vector_env = SequentialVectorEnv([Endless] * 2)
    results = run_episodes(vector_env, Guesses(0), [1, 2, 3, 4], deterministic=True, max_steps=LONG_EPISODE + 10)
    assert [result.length for result in results] == [3, 3, LONG_EPISODE + 10, LONG_EPISODE + 10]


@pytest.mark.filterwarnings("error")
def test_an_episode_of_exactly_so_many_decisions_has_ended():
    class Long(Dice):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed, options=options)
            self.left = LONG_EPISODE
            return observation, info

    (result,) = run_episodes(SequentialVectorEnv([Long]), Guesses(0), [1], deterministic=True)
    assert result.length == LONG_EPISODE
