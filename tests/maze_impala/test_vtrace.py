"""V-trace against the paper's sums written out, and its known limits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maze_impala.vtrace import reverse_scan, vtrace
from maze_runtime.rollout.advantages import generalized_advantages


def episode_data(seed, n_steps, n_rollouts, end_probability=0.2):
    """Random decisions with terminations and truncations inside, float64."""
    rng = np.random.default_rng(seed)
    shape = (n_steps, n_rollouts)
    ended = rng.random(shape) < end_probability
    return {
        "log_ratio": rng.normal(0.0, 0.7, shape),
        "reward": rng.normal(0.0, 2.0, shape),
        "value": rng.normal(0.0, 3.0, shape),
        "next_value": rng.normal(0.0, 3.0, shape),
        "terminated": ended & (rng.random(shape) < 0.5),
        "ended": ended,
    }


def followed(data):
    """The same data where the next value is that of the next row unless the episode ended."""
    following = data["next_value"].copy()
    following[:-1] = np.where(data["ended"][:-1], following[:-1], data["value"][1:])
    return {**data, "next_value": following}


def paper(data, gamma, clip_rho, clip_pg_rho):
    """Equation 1 and section 4.2 of Espeholt et al. 2018 as they stand: sums and products, row by row."""
    n_steps, n_rollouts = data["reward"].shape
    targets, advantages = np.zeros((2, n_steps, n_rollouts))
    for b in range(n_rollouts):
        reward, value, following = (data[name][:, b] for name in ("reward", "value", "next_value"))
        discount = gamma * ~data["terminated"][:, b]
        ended, ratio = data["ended"][:, b], np.exp(data["log_ratio"][:, b])
        rho = np.minimum(clip_rho, ratio)
        for s in range(n_steps):
            total, product, power = value[s], 1.0, 1.0
            for t in range(s, n_steps):
                total += power * product * rho[t] * (reward[t] + discount[t] * following[t] - value[t])
                if ended[t]:
                    break
                product *= min(1.0, ratio[t])
                power *= discount[t]
            targets[s, b] = total
        for s in range(n_steps):
            next_target = following[s] if ended[s] or s == n_steps - 1 else targets[s + 1, b]
            advantages[s, b] = min(clip_pg_rho, ratio[s]) * (reward[s] + discount[s] * next_target - value[s])
    return targets, advantages


def ours(data, gamma, **clips):
    tensors = {name: torch.from_numpy(data[name]) for name in ("log_ratio", "reward", "value", "next_value")}
    discount = torch.from_numpy(gamma * ~data["terminated"])
    continues = torch.from_numpy((~data["ended"]).astype(float))
    result = vtrace(**tensors, discount=discount, continues=continues, **clips)
    return result.targets.numpy(), result.advantages.numpy()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_steps=st.integers(1, 33),
    n_rollouts=st.integers(1, 3),
    gamma=st.sampled_from([0.0, 0.5, 0.98, 1.0]),
    clip_rho=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    clip_pg_rho=st.sampled_from([0.0, 1.0, 2.0]),
)
def test_the_paper_s_sums(seed, n_steps, n_rollouts, gamma, clip_rho, clip_pg_rho):
    data = followed(episode_data(seed, n_steps, n_rollouts))
    expected = paper(data, gamma, clip_rho or np.inf, clip_pg_rho or np.inf)
    found = ours(data, gamma, clip_rho=clip_rho, clip_pg_rho=clip_pg_rho)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_steps", [1, 7, 100])
def test_on_policy_targets_are_n_step_returns(n_steps):
    """Section 4.1: where pi = mu, v_s is the discounted sum of rewards plus the bootstrap value."""
    data = followed({**episode_data(1, n_steps, 3), "log_ratio": np.zeros((n_steps, 3))})
    targets, _ = ours(data, 0.9)
    for b in range(3):
        following = data["next_value"][-1, b]
        for t in reversed(range(n_steps)):
            if data["ended"][t, b]:
                following = data["next_value"][t, b]
            following = data["reward"][t, b] + 0.9 * (not data["terminated"][t, b]) * following
            assert targets[t, b] == pytest.approx(following)


def test_on_policy_targets_and_advantages_are_those_of_gae_with_lambda_1():
    data = followed({**episode_data(2, 40, 4), "log_ratio": np.zeros((40, 4))})
    targets, advantages = ours(data, 0.97)
    single = {name: np.asarray(array, np.float32) for name, array in data.items() if array.dtype == np.float64}
    of_gae = generalized_advantages(
        single["reward"],
        single["value"],
        single["next_value"],
        data["terminated"],
        data["ended"],
        gamma=0.97,
        gae_lambda=1.0,
    )
    np.testing.assert_allclose(advantages, of_gae, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(targets, data["value"] + of_gae, rtol=1e-3, atol=1e-3)


def test_nothing_reaches_across_the_end_of_an_episode():
    data = followed(episode_data(3, 20, 1, end_probability=0.0))
    data["ended"][9] = data["terminated"][9] = True
    before = ours(data, 0.98)
    for name in ("reward", "log_ratio"):
        data[name][10:] += 5.0
    after = ours(data, 0.98)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[:10], new[:10])
        assert not np.allclose(old[10:], new[10:])


def test_a_truncated_episode_bootstraps_and_a_terminated_one_does_not():
    data = episode_data(4, 1, 2)
    data["reward"][:], data["value"][:], data["next_value"][:], data["log_ratio"][:] = 1.0, 0.0, 10.0, 0.0
    data["ended"][:], data["terminated"][:] = True, [[True, False]]
    targets, _ = ours(data, 0.5)
    assert targets.tolist() == [[1.0, 6.0]]


def test_rollouts_that_the_learner_would_not_have_made_teach_nothing():
    data = followed({**episode_data(5, 10, 2), "log_ratio": np.full((10, 2), -60.0)})
    targets, advantages = ours(data, 0.98)
    np.testing.assert_allclose(targets, data["value"])
    np.testing.assert_allclose(advantages, 0.0, atol=1e-12)


def test_nothing_carries_a_gradient():
    data = followed(episode_data(6, 5, 2))
    tensors = {
        name: torch.from_numpy(data[name]).requires_grad_() for name in ("log_ratio", "reward", "value", "next_value")
    }
    tensors["reward"].requires_grad_(False)
    ones = torch.ones(5, 2, dtype=torch.float64)
    result = vtrace(**tensors, discount=ones, continues=ones)
    assert not result.targets.requires_grad
    assert not result.advantages.requires_grad


@given(n_steps=st.integers(1, 70), seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_the_scan_is_the_recursion(n_steps, seed):
    rng = np.random.default_rng(seed)
    addend, factor = rng.normal(size=(2, n_steps, 2))
    expected, following = np.zeros((n_steps, 2)), np.zeros(2)
    for t in reversed(range(n_steps)):
        expected[t] = following = addend[t] + factor[t] * following
    found = reverse_scan(torch.from_numpy(addend), torch.from_numpy(factor)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
