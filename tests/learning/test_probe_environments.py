"""Environments that isolate one mistake each; every one has a known value function or optimum."""

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.learning

PROBE = "maze_testing.environments:"


def value(result, *observation):
    with torch.no_grad():
        tensor = torch.tensor([observation], dtype=torch.float32)
        return float(result.model.value("0", {"observation": tensor}))


def probability(result, action, *observation):
    with torch.no_grad():
        tensor = torch.tensor([observation], dtype=torch.float32)
        logits = result.model.logits("0", {"observation": tensor})["action"]
        return float(logits.softmax(-1)[0, action])


def probe(learn, trainer, name, **options):
    return learn(env={"use": PROBE + name, **options}, trainer=trainer, evaluation={"n_episodes": 0})


def test_a_constant_reward_is_valued(learn, trainer):
    assert value(probe(learn, trainer, "ConstantReward"), 0.0) == pytest.approx(1.0, abs=0.05)


def test_values_follow_the_observation(learn, trainer):
    result = probe(learn, trainer, "ObservationReward")
    assert value(result, 1.0) == pytest.approx(1.0, abs=0.1)
    assert value(result, -1.0) == pytest.approx(-1.0, abs=0.1)


def test_rewards_are_discounted_over_two_steps(learn, trainer):
    result = probe(learn, trainer, "TwoStep")
    assert value(result, 0.0) == pytest.approx(0.9, abs=0.07)
    assert value(result, 1.0) == pytest.approx(1.0, abs=0.07)


def test_the_policy_follows_the_reward_of_its_actions(learn, trainer):
    result = probe(learn, trainer, "ActionReward")
    assert probability(result, 1, 0.0) > 0.95
    assert value(result, 0.0) == pytest.approx(1.0, abs=0.15)


def test_a_time_limit_is_not_the_end_of_the_world(learn, trainer):
    result = probe(learn, {**trainer, "gamma": 0.8, "n_epochs": 16}, "Endless")
    assert value(result, 0.0) == pytest.approx(1.0 / (1.0 - 0.8), rel=0.05)


@pytest.mark.parametrize(
    ("kind", "threshold"), [("discrete", 7.5), ("multi-discrete", 7.0), ("multi-binary", 7.4), ("box", 6.8)]
)
def test_every_action_space_learns_the_identity(learn, trainer, kind, threshold):
    slow = {"n_epochs": 10, "n_rollout_steps": 32, "lr": {"start": 1e-2, "end": 1e-3}}
    result = learn(
        env={"use": PROBE + "Identity", "kind": kind},
        trainer={**trainer, **slow, "gamma": 0.5},
        evaluation={"n_episodes": 20, "every_epochs": 2},
    )
    assert result.best_metric >= threshold


def test_masks_and_dict_actions(learn, trainer):
    slow = {"n_epochs": 12, "n_rollout_steps": 32, "lr": {"start": 1e-2, "end": 1e-3}}
    result = learn(
        env={"use": PROBE + "MaskedDict"},
        trainer={**trainer, **slow, "gamma": 0.5},
        evaluation={"n_episodes": 20, "every_epochs": 2},
    )
    assert np.isfinite(result.best_metric)
    assert result.best_metric >= 13.5
