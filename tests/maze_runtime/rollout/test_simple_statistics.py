"""Statistics of a plain loop equal what the loop itself counted, and change no episode."""

import gymnasium
import numpy as np
import pytest

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import Group
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.simple_statistics import simple_statistics


def play(env, n_episodes, table_after=()):
    """Rewards and lengths of CartPole with a fixed way to act; one seeded reset."""
    rewards, observation = [], None
    for episode in range(n_episodes):
        observation, _ = env.reset(seed=5) if episode == 0 else env.reset()
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(int(observation[2] > 0))
            total, ended = total + reward, terminated or truncated
        rewards.append(total)
        if episode in table_after:
            str(env)
    return rewards


def test_rewards_and_lengths_of_a_gymnasium_environment():
    env = simple_statistics(gymnasium.make("CartPole-v1"))
    rewards = play(env, 4)
    counted = env.statistics()
    assert counted["BaseEnvEvents/episode_count"] == 4
    assert counted["BaseEnvEvents/reward/mean"] == pytest.approx(np.mean(rewards))
    assert counted["BaseEnvEvents/episode_length/mean"] == pytest.approx(np.mean(rewards))
    assert "BaseEnvEvents/reward/max" in str(env)
    assert env.action_space.n == 2
    env.clear()
    assert env.statistics() == {"BaseEnvEvents/episode_count": 0}


def structured(version):
    return make_env(CuttingOptions(version=version, max_episode_steps=20))


def play_cutting(env, n_episodes, table_after=()):
    env_steps, rewards = [], []
    for episode in range(n_episodes):
        observation, _ = env.reset(seed=5) if episode == 0 else env.reset()
        policy = RandomPolicy(PolicyContext(spaces=env.structured_spaces, seed=episode))
        total, steps, ended = 0.0, 0, False
        while not ended:
            key, agent = env.actor_id()
            rows = {name: np.asarray(value)[None] for name, value in observation.items()}
            group = Group(env_index=np.zeros(1, np.int64), agent_id=np.array([agent]), observation=rows)
            action = {head: value[0] for head, value in policy.act(key, group).items()}
            observation, reward, terminated, truncated, _ = env.step(action)
            total, steps, ended = total + reward, steps + env.is_flat_step_end(), terminated or truncated
        rewards.append(total)
        env_steps.append(steps)
        if episode in table_after:
            str(env)
    return rewards, env_steps


@pytest.mark.parametrize("version", ["flat", "structured"])
def test_events_and_kpis_of_a_maze_environment_the_last_episode_included(version):
    env = simple_statistics(structured(version))
    rewards, steps = play_cutting(env, 3)
    counted = env.statistics()
    assert counted["BaseEnvEvents/reward/mean"] == pytest.approx(np.mean(rewards))
    assert counted["BaseEnvEvents/episode_length/mean"] == np.mean(steps) == 20
    assert counted == env.statistics()
    assert [tag for tag in counted if tag.startswith("BaseEnvEvents/kpi/")]
    assert [tag for tag in counted if tag.startswith("CuttingEvents/")]


@pytest.mark.parametrize("table_after", [(), (0, 1), (2,)])
def test_looking_changes_no_episode(table_after):
    plain, _ = play_cutting(structured("flat"), 4)
    watched, _ = play_cutting(simple_statistics(structured("flat")), 4, table_after)
    assert plain == watched
    assert play(gymnasium.make("CartPole-v1"), 4) == play(
        simple_statistics(gymnasium.make("CartPole-v1")), 4, table_after
    )


def test_an_episode_that_was_broken_off_is_not_counted():
    env = simple_statistics(structured("flat"))
    play_cutting(env, 1)
    before = env.statistics()
    env.reset()
    env.step({name: space.sample() for name, space in env.structured_spaces.action["0"].spaces.items()})
    env.reset()
    assert env.statistics() == before
