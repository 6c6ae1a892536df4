"""The kernel's conformance suite on Gymnasium environments of every kind, Taxi with its mask in info."""

from functools import partial

import gymnasium
import pytest
from gymnasium import spaces

from maze_gym.env import make_env
from maze_gym.options import GymOptions
from maze_testing.envs import check_env

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-"))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", TAXI, "Blackjack-v1"])
def test_gymnasium_environments_keep_the_contract(env_id):
    check_env(partial(make_env, GymOptions(id=env_id)))


def test_taxi_offers_its_mask():
    env = make_env(GymOptions(id=TAXI))
    assert env.structured_spaces.observation["0"]["action_mask"] == spaces.MultiBinary(6)
    observation, info = env.reset(seed=3)
    assert observation["action_mask"].tolist() == info["action_mask"].tolist()
