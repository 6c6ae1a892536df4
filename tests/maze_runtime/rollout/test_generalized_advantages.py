"""Advantage estimation against a slow walk over one environment at a time, written from the paper."""

import numpy as np
import pytest

from maze_runtime.rollout.advantages import generalized_advantages


def walk(reward, value, next_value, terminated, ended, flat_step_end, gamma, gae_lambda):
    """Sum of discounted one-step errors (equation 16), forward from every decision until its episode ends."""
    n_steps, n_envs = reward.shape
    advantages = np.zeros((n_steps, n_envs))
    for n in range(n_envs):
        for start in range(n_steps):
            weight = 1.0
            for t in range(start, n_steps):
                discount = gamma if flat_step_end[t, n] else 1.0
                bootstrap = 0.0 if terminated[t, n] else discount * next_value[t, n]
                advantages[start, n] += weight * (reward[t, n] + bootstrap - value[t, n])
                if ended[t, n]:
                    break
                weight *= discount * (gae_lambda if flat_step_end[t, n] else 1.0)
    return advantages


@pytest.fixture
def stream():
    rng = np.random.default_rng(3)
    shape = (23, 5)
    terminated = rng.random(shape) < 0.12
    truncated = (rng.random(shape) < 0.12) & ~terminated
    return {
        "reward": rng.normal(size=shape).astype(np.float32),
        "value": rng.normal(size=shape).astype(np.float32),
        "next_value": rng.normal(size=shape).astype(np.float32),
        "terminated": terminated,
        "ended": terminated | truncated,
    }


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_flat_streams_match_the_walk(stream, gamma, gae_lambda):
    expected = walk(**stream, flat_step_end=np.ones((23, 5), bool), gamma=gamma, gae_lambda=gae_lambda)
    result = generalized_advantages(**stream, gamma=gamma, gae_lambda=gae_lambda)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_sub_steps_are_not_discounted(stream):
    flat_step_end = np.random.default_rng(4).random((23, 5)) < 0.5
    expected = walk(**stream, flat_step_end=flat_step_end, gamma=0.9, gae_lambda=0.8)
    result = generalized_advantages(**stream, gamma=0.9, gae_lambda=0.8, flat_step_end=flat_step_end)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_all_flat_steps_equal_the_flat_case_to_the_last_bit(stream):
    flat = generalized_advantages(**stream, gamma=0.97, gae_lambda=0.9)
    structured = generalized_advantages(**stream, gamma=0.97, gae_lambda=0.9, flat_step_end=np.ones((23, 5), bool))
    np.testing.assert_array_equal(flat, structured)


def test_lambda_one_is_the_bootstrapped_return_and_lambda_zero_the_one_step_error(stream):
    gamma = 0.9
    value, ended = stream["value"], stream["ended"]
    returns = np.zeros_like(value)
    following = np.where(stream["terminated"], 0.0, stream["next_value"])
    for t in reversed(range(len(value))):
        later = following[t] if t == len(value) - 1 else np.where(ended[t], following[t], returns[t + 1])
        returns[t] = stream["reward"][t] + gamma * later
    # lambda = 1 telescopes only where V(next) is the value of the next row
    consistent = stream["next_value"].copy()
    consistent[:-1] = np.where(ended[:-1], stream["next_value"][:-1], value[1:])
    monte_carlo = generalized_advantages(**{**stream, "next_value": consistent}, gamma=gamma, gae_lambda=1.0)
    np.testing.assert_allclose(monte_carlo + value, returns, rtol=1e-4, atol=1e-5)
    one_step = generalized_advantages(**stream, gamma=gamma, gae_lambda=0.0)
    np.testing.assert_allclose(one_step, stream["reward"] + gamma * following - value, rtol=1e-5, atol=1e-6)


def test_nothing_leaks_across_an_episode_end():
    reward = np.zeros((4, 1), np.float32)
    reward[3] = 100.0
    ended = np.array([[False], [True], [False], [False]])
    zeros = np.zeros((4, 1), np.float32)
    result = generalized_advantages(reward, zeros, zeros, ended, ended, gamma=0.99, gae_lambda=0.95)
    assert result[0] == result[1] == 0.0
    assert result[2] > 0.0
