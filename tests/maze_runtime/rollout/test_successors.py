"""Advantages along series of decisions against a slow walk through one environment at a time."""

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maze_runtime.rollout.advantages import generalized_advantages
from maze_runtime.rollout.successors import (
    ValuedRollout,
    accumulate_differences,
    actor_advantages,
    actor_successors,
    series_of,
    state_advantages,
    state_successors,
)

FLAGS = ("terminated", "truncated", "flat_step_end", "actor_done")


def walk(rollout, n, gamma, gae_lambda, *, by_actor):
    """Advantages of environment n, decision by decision, looking forward from each; float64 and no arrays."""
    n_steps = len(rollout.value)
    series = rollout.series if by_actor else np.zeros_like(rollout.series)
    final_series = rollout.final_series if by_actor else np.zeros_like(rollout.series)
    last_series = rollout.last_series if by_actor else np.zeros_like(rollout.last_series)

    def advantage(k):
        value, actor = float(rollout.value[k, n]), series[k, n]
        if by_actor and rollout.actor_done[k, n]:
            return float(rollout.reward[k, n]) - value
        paid, discount, trace = 0.0, 1.0, 1.0
        for j in range(k, n_steps):
            paid += discount * float(rollout.reward[j, n])
            if rollout.flat_step_end[j, n]:
                discount, trace = discount * gamma, trace * gamma * gae_lambda
            if by_actor and (j, n, actor) in rollout.departures:
                return paid - value
            if rollout.terminated[j, n]:
                return paid - value
            if rollout.truncated[j, n]:
                own = final_series[j, n] == actor
                return paid + discount * (float(rollout.final_value[j, n]) if own else value) - value
            if j + 1 < n_steps and series[j + 1, n] == actor:
                return paid + discount * float(rollout.value[j + 1, n]) - value + trace * advantage(j + 1)
        own = last_series[n] == actor
        return paid + discount * (float(rollout.last_value[n]) if own else value) - value

    return [advantage(k) for k in range(n_steps)]


@st.composite
def rollouts(draw, max_series=4):
    """Rollouts of any course: episodes that end within flat steps, teams that change, actors that wait for ever."""
    n_steps, n_envs = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    n_series = draw(st.integers(1, max_series))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, rate = (n_steps, n_envs), draw(st.sampled_from([0.0, 0.15, 0.5]))
    numbers = {name: rng.normal(size=shape).astype(np.float32) for name in ("reward", "value", "final_value")}
    flags = {name: rng.random(shape) < rate for name in FLAGS}
    flags["flat_step_end"] = rng.random(shape) < draw(st.sampled_from([0.3, 1.0]))
    gone = zip(
        *(rng.integers(size, size=draw(st.integers(0, 4))) for size in (n_steps, n_envs, n_series)), strict=False
    )
    return ValuedRollout(
        **numbers,
        **flags,
        departures=[tuple(map(int, one)) for one in gone],
        last_value=rng.normal(size=n_envs).astype(np.float32),
        series=rng.integers(n_series, size=shape),
        final_series=rng.integers(n_series, size=shape),
        last_series=rng.integers(n_series, size=n_envs),
        n_series=n_series,
    )


@settings(max_examples=150, deadline=None)
@given(rollouts(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.8, 1.0]), st.booleans())
def test_any_rollout_matches_the_walk(rollout, gamma, gae_lambda, by_actor):
    estimate = actor_advantages if by_actor else state_advantages
    result = estimate(rollout, gamma=gamma, gae_lambda=gae_lambda)
    expected = [walk(rollout, n, gamma, gae_lambda, by_actor=by_actor) for n in range(rollout.value.shape[1])]
    np.testing.assert_allclose(result, np.array(expected).T, rtol=1e-4, atol=1e-4)


def along(rollout, after):
    """Monte Carlo returns by going from each decision to its successors, one at a time."""
    values, size = rollout.successor_values(), rollout.value.size
    reward, discount, trace, index = (
        getattr(after, name).reshape(-1) for name in ("reward", "discount", "trace", "index")
    )

    def worth(k):
        if discount[k] == 0.0:
            return float(reward[k])
        if trace[k] > 0.0:
            assert index[k] < size
            return float(reward[k]) + float(discount[k]) * worth(index[k])
        return float(reward[k]) + float(discount[k]) * float(values[index[k]])

    return np.array([worth(k) for k in range(size)]).reshape(rollout.value.shape)


@settings(max_examples=150, deadline=None)
@given(rollouts(), st.sampled_from([0.5, 1.0]), st.booleans())
def test_successors_lead_to_the_returns_of_the_walk(rollout, gamma, by_actor):
    after = (actor_successors if by_actor else state_successors)(rollout, gamma=gamma)
    expected = [walk(rollout, n, gamma, 1.0, by_actor=by_actor) for n in range(rollout.value.shape[1])]
    np.testing.assert_allclose(along(rollout, after) - rollout.value, np.array(expected).T, rtol=1e-4, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(rollouts(max_series=1))
def test_one_actor_of_a_flat_environment_has_ordinary_advantages_to_the_last_bit(rollout):
    rollout = attrs.evolve(rollout, departures=())
    rollout.flat_step_end[...] = True
    rollout.actor_done[...] = False
    following = np.concatenate([rollout.value[1:], rollout.last_value[None]])
    following[rollout.truncated] = rollout.final_value[rollout.truncated]
    ended = rollout.terminated | rollout.truncated
    flat = generalized_advantages(
        rollout.reward, rollout.value, following, rollout.terminated, ended, gamma=0.97, gae_lambda=0.9
    )
    np.testing.assert_array_equal(actor_advantages(rollout, gamma=0.97, gae_lambda=0.9), flat)
    np.testing.assert_array_equal(state_advantages(rollout, gamma=0.97, gae_lambda=0.9), flat)


def test_with_lambda_1_both_critics_estimate_the_same_returns():
    """Two actors in turn, one terminated episode: Monte Carlo returns do not depend on the series."""
    rng = np.random.default_rng(0)
    shape = (10, 2)
    terminated = np.zeros(shape, bool)
    terminated[-1] = True
    rollout = ValuedRollout(
        reward=rng.normal(size=shape).astype(np.float32),
        value=rng.normal(size=shape).astype(np.float32),
        terminated=terminated,
        truncated=np.zeros(shape, bool),
        flat_step_end=np.tile([[False], [True]], (5, 2)),
        actor_done=np.zeros(shape, bool),
        final_value=np.zeros(shape, np.float32),
        last_value=np.zeros(2, np.float32),
        series=np.tile([[0], [1]], (5, 2)),
        final_series=np.zeros(shape, np.int64),
        last_series=np.zeros(2, np.int64),
        n_series=2,
    )
    state = state_advantages(rollout, gamma=0.9, gae_lambda=1.0)
    actor = actor_advantages(rollout, gamma=0.9, gae_lambda=1.0)
    np.testing.assert_allclose(state, actor, rtol=1e-4, atol=1e-5)


def test_differences_add_up_within_a_flat_step():
    difference = np.array([[1.0], [2.0], [4.0], [8.0]], np.float32)
    step_over = np.array([[False], [True], [False], [False]])
    values, before = accumulate_differences(difference, step_over, np.array([10.0], np.float32))
    assert values[:, 0].tolist() == [11.0, 13.0, 4.0, 12.0]
    assert before[:, 0].tolist() == [10.0, 11.0, 0.0, 4.0]


@pytest.mark.parametrize(("one", "other"), [((0, 1), (1, 0)), ((0, 0), (0, 1)), ((2, 70_000), (1, 70_000))])
def test_actors_differ_by_policy_key_and_agent(one, other):
    assert series_of(np.array(one[0]), np.array(one[1])) != series_of(np.array(other[0]), np.array(other[1]))
