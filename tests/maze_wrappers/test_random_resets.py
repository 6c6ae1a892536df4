"""Where an episode begins is drawn by the environment, and how much is skipped by the wrapper: two streams."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_wrappers.options import RandomResetOptions
from maze_wrappers.random_reset import RandomReset

N_EPISODES = 500


class Somewhere(gymnasium.Env):
    """Draws where it starts, and keeps what it is told to do."""

    observation_space = spaces.Box(0.0, 100.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start, self.actions = int(self.np_random.integers(0, 31)), []
        return np.array([self.start], np.float32), {}

    def step(self, action):
        self.actions.append(int(action))
        return np.array([self.start], np.float32), 0.0, False, False, {}


@pytest.fixture(scope="module")
def episodes():
    """(start, the actions that were skipped) of each episode."""
    game = Somewhere()
    env = RandomReset(GymEnv(game), RandomResetOptions(min_skip=1, max_skip=31))
    found = []
    for seed in range(N_EPISODES):
        env.reset(seed=seed)
        found.append((game.start, list(game.actions)))
    return found


def test_how_much_is_skipped_does_not_follow_from_where_the_episode_starts(episodes):
    equal = sum(len(actions) == 1 + start for start, actions in episodes)
    expected = N_EPISODES / 31
    assert equal == pytest.approx(expected, abs=4 * expected**0.5)


def test_what_is_done_meanwhile_does_not_follow_from_how_long_it_takes(episodes):
    first = [actions[0] for _, actions in episodes if len(actions) > 16]
    assert np.mean(first) == pytest.approx(0.5, abs=4 * 0.5 / len(first) ** 0.5)


def test_an_episode_is_repeated_by_its_seed(episodes):
    game = Somewhere()
    env = RandomReset(GymEnv(game), RandomResetOptions(min_skip=1, max_skip=31))
    env.reset(seed=7)
    assert (game.start, game.actions) == episodes[7]
