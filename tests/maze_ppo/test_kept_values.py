"""Rollouts that hold what the acting weights made of each decision, against rollouts that are evaluated afterwards."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.config import experiment_from_mapping
from maze_ppo.flat_estimator import FlatEstimator
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.run.assembly import Assembly

DISCOUNTS = {"gamma": 0.98, "gae_lambda": 1.0}


class Noise(gymnasium.Env):
    """Pictures of noise; episodes end, or are cut, after some steps."""

    observation_space = spaces.Box(0, 255, (9, 8), np.uint8)
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._picture(), {}

    def step(self, action):
        return self._picture(), float(self.np_random.normal()), *(self.np_random.random(2) < 0.1), {}

    def _picture(self):
        return self.np_random.integers(0, 256, (9, 8), np.uint8)


def trainer(kernel, **tables):
    data = {
        "name": "x",
        "env": {"use": "gym", "id": Noise},
        "vector": {"n_envs": 3},
        "wrappers": [],
        "trainer": {"use": "ppo", "n_rollout_steps": 16, "epoch_length": 1, "batch_size": 16, **DISCOUNTS},
        **tables,
    }
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    made = assembly.make_trainer(assembly.trainer_context())
    made.start_segment(0)
    return made


@pytest.mark.slow
def test_what_a_rollout_holds_is_what_its_weights_make_of_it_afterwards(kernel):
    made = trainer(kernel)
    for _ in range(2):
        rollout = made.collect()
        assert rollout.value is not None
        kept = made.estimate(rollout)
        rollout.value, value = None, rollout.value
        afterwards = FlatEstimator(made.model, torch.device("cpu"), **DISCOUNTS).estimate(rollout)
        rollout.value = value
        unasked = FlatEstimator(made.model, torch.device("cpu"), **DISCOUNTS, needs_log_prob=False).estimate(rollout)
        assert unasked.log_prob is None
        assert torch.equal(unasked.advantages, kept.advantages)
        assert torch.count_nonzero(kept.value)
        for ours, theirs in zip(kept.columns().values(), afterwards.columns().values(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        for minibatch in kept.minibatches(16, made.rng):
            made.step(minibatch)
    made.close()


def test_the_network_runs_once_a_step_and_not_again(kernel, monkeypatch):
    made, rows = trainer(kernel), []
    evaluate = type(made.model).logits_and_value
    monkeypatch.setattr(
        type(made.model),
        "logits_and_value",
        lambda self, key, observation, *rest: (
            rows.append(len(observation["observation"])) or evaluate(self, key, observation, *rest)
        ),
    )
    made.estimate(made.collect())
    assert rows == [3] * 16
    made.close()


@pytest.mark.parametrize(
    "tables",
    [
        {"env": {"use": "gym", "id": "CartPole-v1"}},
        {"model": {"use": "concat", "blocks": {"observation": {"use": "flatten-dense"}}}},
        {"model": {"use": "auto", "recurrence": {"use": "gru", "hidden_size": 4, "stateful": True}}},
        {"vector": {"n_envs": 2, "mode": "subprocess", "n_processes": 1}, "env": {"use": "gym", "id": "CartPole-v1"}},
    ],
    ids=["numbers", "nothing shared", "recurrent", "subprocess"],
)
def test_nothing_is_kept_where_values_would_cost_as_much_as_afterwards(kernel, tables):
    made = trainer(kernel, **tables)
    assert made.collect().value is None
    made.close()


def test_a_policy_without_values_to_keep_says_so(kernel):
    made = trainer(kernel, env={"use": "gym", "id": "CartPole-v1"})
    assert not NetworkPolicy(made.model).keep_values()
    assert not NetworkPolicy(made.model, mirror=False).keep_values()
    made.close()
