"""Training structured environments as a user sees it: repeatable, resumable, in processes, compiled."""

import numpy as np
import pytest
import torch

from maze_kernel.errors import NonFiniteError
from maze_testing.trainers import check_trainer

PLACE = "maze_testing.structured_environments:"
SMALL = {"n_rollout_steps": 21, "epoch_length": 2, "max_grad_norm": 0.5, "gae_lambda": 0.95}
PPO = {"use": "ppo", "batch_size": 20, "n_optimization_epochs": 2, **SMALL}
A2C = {"use": "a2c", **SMALL}
KINDS = {
    "shared critic": {"env": {"use": PLACE + "Hierarchy"}},
    "delta critic": {"env": {"use": PLACE + "DoorAndKey", "divided": True}, "model": {"critic": "delta-state"}},
    "step critic": {"env": {"use": PLACE + "ChangingTeam"}, "model": {"critic": "step-state"}},
    "own networks": {
        "env": {"use": PLACE + "Pair"},
        "model": {"critic": "step-state", "separate_agent_nets": ["agent"]},
    },
    "recurrent": {
        "env": {"use": PLACE + "DoorAndKey"},
        "model": {"recurrence": {"use": "gru", "hidden_size": 6, "stateful": True}, "init": "torch"},
    },
}


def tables(kind, **more):
    chosen = KINDS[kind]
    model = {"use": "auto", "hidden_units": [8], **chosen.get("model", {})}
    return {"env": chosen["env"], "model": model, "vector": {"n_envs": 3}, "trainer": PPO, **more}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("options", [PPO, A2C], ids=["ppo", "a2c"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_trainer_goes_on_bit_for_bit(assemble, kind, options):
    assembly = assemble(**tables(kind, trainer=options))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()))


@pytest.mark.parametrize("options", [PPO, A2C], ids=["ppo", "a2c"])
@pytest.mark.parametrize("kind", ["shared critic", "step critic", "recurrent"])
def test_every_policy_key_has_statistics_of_its_own(make_trainer, kind, options):
    trainer = make_trainer(**tables(kind, trainer=options, env={"use": PLACE + "Hierarchy"}))
    statistics = trainer.train_epoch()
    keys = tuple(trainer.model.distributions)
    for name in ("policy_loss", "value_loss", "entropy", "value", "explained_variance", "policy_grad_norm"):
        own = [statistics[f"ActorCriticEvents/{name}/{key}"] for key in keys]
        assert np.isfinite(own).all()
        assert len(set(own)) == len(keys)
    for name in ("policy_loss", "value_loss", "entropy"):
        own = [statistics[f"ActorCriticEvents/{name}/{key}"] for key in keys]
        assert statistics[f"ActorCriticEvents/{name}"] == pytest.approx(np.mean(own), rel=1e-4)
    has_own_critics = kind != "shared critic"
    assert all((f"ActorCriticEvents/critic_grad_norm/{key}" in statistics) == has_own_critics for key in keys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shared critic", "own networks"])
def test_processes_train_and_repeat(make_trainer, kind):
    vector = {"n_envs": 3, "mode": "subprocess", "n_processes": 2}
    runs = [make_trainer(**tables(kind, vector=vector)) for _ in range(2)]
    before = weights(runs[0]).clone()
    for trainer in runs:
        trainer.train_epoch()
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(before, weights(runs[0]))


def test_environment_steps_are_flat_steps(make_trainer):
    trainer = make_trainer(**tables("delta critic"))
    statistics = trainer.train_epoch()
    assert trainer.env_steps == 2 * 3 * 21 // 2
    assert statistics["BaseEnvEvents/episode_length/mean"] == 8.0
    assert all(np.isfinite(value) for value in statistics.values())


def test_a_single_policy_key_without_minibatch_rows_does_no_harm(make_trainer):
    """A rollout of one decision: nobody has decided under the second policy key yet."""
    trainer = make_trainer(**tables("shared critic", trainer={**PPO, "n_rollout_steps": 1, "epoch_length": 1}))
    statistics = trainer.train_epoch()
    assert all(np.isfinite(value) for value in statistics.values())


def test_a_non_finite_loss_saves_the_rows_of_every_policy_key(make_trainer):
    trainer = make_trainer(**tables("shared critic"))
    original = trainer.collect

    def poisoned():
        buffer = original()
        buffer.actor_reward[3, 1] = np.nan
        return buffer

    trainer.collect = poisoned
    with pytest.raises(NonFiniteError) as failure:
        trainer.train_epoch()
    assert {"manager.advantages", "worker.observation.shown"} <= set(failure.value.batch)


@pytest.mark.slow
@pytest.mark.parametrize("options", [PPO, A2C], ids=["ppo", "a2c"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_updates_train_what_eager_ones_train(make_trainer, kind, options):
    eager, compiled = (
        make_trainer(**tables(kind, trainer={**options, "epoch_length": 1, "compile": flag})) for flag in (False, True)
    )
    for trainer in (eager, compiled):
        trainer.train_epoch()
    if options["use"] == "a2c":  # PPO fills its minibatches up: other minibatches, same rows
        np.testing.assert_allclose(weights(eager), weights(compiled), rtol=1e-4, atol=1e-6)
    assert torch.isfinite(weights(compiled)).all()
    for _ in range(3):
        compiled.train_epoch()
    assert torch.isfinite(weights(compiled)).all()
