"""Layers that behave otherwise in training, BatchNorm above all, are in training mode where a gradient is taken."""

import gymnasium
import pytest
import torch
from torch import nn

from maze_deployment.agent import AgentDeployment
from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext

OFF_POLICY = {"epoch_length": 4, "initial_buffer_size": 20, "batch_size": 8}
TRAINERS = {
    "ppo": {"epoch_length": 2, "n_rollout_steps": 16, "batch_size": 8},
    "a2c": {"epoch_length": 2, "n_rollout_steps": 4},
    "impala": {"epoch_length": 2, "n_rollout_steps": 8, "actors_batch_size": 1},
    "es": {"n_epochs": 1, "n_rollouts_per_update": 4},
    "sac": OFF_POLICY,
    "dqn": OFF_POLICY,
    "td3": OFF_POLICY,
}


def network(n_inputs, n_outputs, layer):
    return nn.Sequential(nn.Linear(n_inputs, 8), layer, nn.Tanh(), nn.Linear(8, n_outputs))


def context(trainer, run_dir, layer, n_envs=1, **options):
    env, sizes = ("Pendulum-v1", (3, 2)) if trainer == "td3" else ("CartPole-v1", (4, 2))
    return RunContext(
        env=env,
        model={"use": "custom", "policy": network(*sizes, layer)},
        trainer={"use": trainer, **TRAINERS[trainer], **options},
        wrappers=[],
        overrides={"vector.n_envs": n_envs, "vector.mode": "sequential", "evaluation.n_episodes": 1},
        run_dir=run_dir / "run",
        silent=True,
    )


@pytest.mark.parametrize("trainer", TRAINERS)
def test_batch_normalisation_works_with_one_environment(trainer, tmp_path):
    trained = context(trainer, tmp_path, nn.BatchNorm1d(8))
    trained.train(n_epochs=1)
    assert trained.rollout(n_episodes=1).episodes[0].error is None
    env = gymnasium.make("Pendulum-v1" if trainer == "td3" else "CartPole-v1")
    observation, _ = env.reset(seed=0)
    with AgentDeployment.load(trained) as agent:
        assert env.action_space.contains(agent.act(observation))


def test_batch_normalisation_of_a_critic_works_with_one_environment(tmp_path):
    critic = {"use": "custom", "critic": network(4, 1, nn.BatchNorm1d(8))}
    trainer = {"use": "ppo", **TRAINERS["ppo"]}
    overrides = {"vector.n_envs": 1, "evaluation.n_episodes": 0}
    RunContext(
        env="CartPole-v1", model=critic, trainer=trainer, overrides=overrides, run_dir=tmp_path / "run", silent=True
    ).train(n_epochs=1)


class Probe(nn.Module):
    """Notes of every call whether it is in training mode and a gradient is taken, and how many rows there are."""

    calls: list = []  # noqa: RUF012

    def forward(self, x):
        self.calls.append((self.training, torch.is_grad_enabled(), len(x)))
        return x


@pytest.mark.parametrize("trainer", TRAINERS)
def test_networks_are_in_training_mode_where_a_gradient_is_taken(trainer, tmp_path):
    made = context(trainer, tmp_path, Probe(), n_envs=3)
    Probe.calls.clear()
    made.train(n_epochs=1)
    made.rollout(n_episodes=1)
    learnt = {training for training, has_gradient, _ in Probe.calls if has_gradient}
    acted = {training for training, has_gradient, n_rows in Probe.calls if not has_gradient and n_rows <= 3}
    assert acted == {False}
    assert learnt == {trainer != "es"}  # which traces its networks
    if trainer in ("ppo", "a2c", "impala"):
        assert {training for training, has_gradient, _ in Probe.calls if not has_gradient} == {False}


def test_a_single_decision_that_is_left_over_is_no_minibatch_by_itself(tmp_path):
    made = context("ppo", tmp_path, Probe(), n_envs=3, n_rollout_steps=11, batch_size=32)
    Probe.calls.clear()
    made.train(n_epochs=1)
    assert {n_rows for _, has_gradient, n_rows in Probe.calls if has_gradient} == {32, 2}
    trained = context("ppo", tmp_path / "normalised", nn.BatchNorm1d(8), n_envs=3, n_rollout_steps=11, batch_size=32)
    trained.train(n_epochs=1)


def test_a_gradient_step_of_a_single_decision_is_refused_in_words(tmp_path):
    with pytest.raises(RequestError, match="has a single decision") as raised:
        context("a2c", tmp_path, nn.BatchNorm1d(8), n_rollout_steps=1).train(n_epochs=1)
    assert "n_rollout_steps" in raised.value.help
