"""Training as a user sees it: the same seed gives the same weights, a restored trainer goes on, nothing is lost."""

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.errors import NonFiniteError, RequestError
from maze_runtime.env.flat import FlatEnv, flat_spaces

SMALL = {"n_rollout_steps": 32, "epoch_length": 2, "max_grad_norm": 0.5, "gae_lambda": 0.95}
ALGORITHMS = [
    {"use": "ppo", "batch_size": 48, "n_optimization_epochs": 2, **SMALL},
    {"use": "a2c", **SMALL},
]


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("options", ALGORITHMS, ids=["ppo", "a2c"])
@pytest.mark.parametrize("mode", ["native", "sequential"])
class TestBothAlgorithms:
    def test_the_same_seed_gives_the_same_weights(self, make_trainer, options, mode):
        runs = [make_trainer(trainer=options, vector={"n_envs": 4, "mode": mode}) for _ in range(2)]
        for trainer in runs:
            trainer.train_epoch()
        assert torch.equal(weights(runs[0]), weights(runs[1]))

    def test_another_seed_gives_other_weights(self, make_trainer, options, mode):
        runs = [make_trainer(trainer=options, seed=seed, vector={"n_envs": 4, "mode": mode}) for seed in (0, 1)]
        assert not torch.equal(weights(runs[0]), weights(runs[1]))

    def test_a_restored_trainer_goes_on_bit_for_bit(self, make_trainer, options, mode):
        tables = {"trainer": options, "vector": {"n_envs": 4, "mode": mode}}
        first, second = make_trainer(**tables), make_trainer(**tables)
        first.train_epoch()
        second.model.load_state_dict({name: tensor.clone() for name, tensor in first.model.state_dict().items()})
        second.load_state_dict(first.state_dict())
        for trainer in (first, second):
            trainer.start_segment(1)
            trainer.train_epoch()
        assert torch.equal(weights(first), weights(second))
        assert first.env_steps == second.env_steps


def test_rows_that_only_reset_enter_no_count(make_trainer):
    """Native CartPole spends a row on every reset. Untrained episodes are short, so there are many."""
    trainer = make_trainer(trainer={**ALGORITHMS[0], "epoch_length": 4}, vector={"n_envs": 4, "mode": "native"})
    statistics = trainer.train_epoch()
    n_rows, n_episodes = 4 * 32 * 4, statistics["BaseEnvEvents/episode_count"]
    assert n_episodes > 4
    assert n_rows - n_episodes <= trainer.env_steps <= n_rows - n_episodes + 4
    assert statistics["BaseEnvEvents/episode_length/mean"] == pytest.approx(statistics["BaseEnvEvents/reward/mean"])


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda options: options["use"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_rollout_of_resets_alone_is_no_update(make_trainer, algorithm, compiled):
    """With one decision a rollout, each reset of native CartPole is a rollout of its own."""
    options = {**algorithm, "n_rollout_steps": 1, "epoch_length": 60, "compile": compiled}
    if algorithm["use"] == "ppo":
        options |= {"target_kl": 0.5, "batch_size": 1}
    trainer = make_trainer(trainer=options, vector={"n_envs": 1, "mode": "native"})
    before, taken = weights(trainer).clone(), []
    step = trainer.step
    trainer.step = lambda minibatch: (taken.append(minibatch.weight), step(minibatch))[1]
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] > 1
    assert trainer.env_steps == len(taken) // options.get("n_optimization_epochs", 1) < 60
    assert all(weight is None or weight.any() for weight in taken)
    assert all(np.isfinite(value) for value in statistics.values())
    assert statistics["ActorCriticEvents/entropy"] > 0.5
    assert not torch.equal(weights(trainer), before)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda options: options["use"])
def test_an_epoch_without_an_update_has_no_statistics_of_any(make_trainer, algorithm):
    options = {**algorithm, "n_rollout_steps": 1, "epoch_length": 1}
    trainer = make_trainer(trainer=options, vector={"n_envs": 1, "mode": "native"})
    epochs = [trainer.train_epoch() for _ in range(60)]
    without = [statistics for statistics in epochs if "ActorCriticEvents/entropy" not in statistics]
    assert len(without) == 60 - trainer.env_steps > 0
    assert not any(tag.startswith("ActorCriticEvents/") for statistics in without for tag in statistics
                   if not tag.endswith("/learning_rate"))  # fmt: skip


def test_statistics_have_the_documented_tags(make_trainer):
    statistics = make_trainer(trainer=ALGORITHMS[0]).train_epoch()
    wanted = "policy_loss value_loss entropy clip_fraction approx_kl grad_norm explained_variance learning_rate value"
    assert {f"ActorCriticEvents/{name}" for name in wanted.split()} <= set(statistics)
    assert not any(tag.count("/") > 1 for tag in statistics if tag.startswith("ActorCriticEvents"))
    assert {"Timing/rollout_seconds", "Timing/update_seconds", "Timing/env_steps_per_second"} <= set(statistics)
    assert all(np.isfinite(value) for value in statistics.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda options: options["use"])
def test_norms_of_policy_and_critic_are_parts_of_the_whole(make_trainer, algorithm):
    trainer = make_trainer(trainer={**algorithm, "epoch_length": 1, "n_rollout_steps": 4, "max_grad_norm": 1e-3})
    if algorithm["use"] == "ppo":
        trainer.options = attrs.evolve(trainer.options, n_optimization_epochs=1, batch_size=1000)
    statistics = trainer.train_epoch()
    whole, policy, critic = (
        statistics[f"ActorCriticEvents/{name}"] for name in ("grad_norm", "policy_grad_norm", "critic_grad_norm")
    )
    assert min(policy, critic) > 0.0
    assert whole**2 == pytest.approx(policy**2 + critic**2, rel=1e-4)


def test_a_policy_that_is_not_trained_has_no_gradient(make_trainer):
    statistics = make_trainer(trainer={**ALGORITHMS[0], "critic_burn_in_epochs": 1}).train_epoch()
    assert statistics["ActorCriticEvents/policy_grad_norm"] == 0.0
    assert statistics["ActorCriticEvents/critic_grad_norm"] == pytest.approx(statistics["ActorCriticEvents/grad_norm"])


def test_burn_in_trains_the_critic_alone(make_trainer):
    trainer = make_trainer(trainer={**ALGORITHMS[0], "critic_burn_in_epochs": 1})
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train_epoch()
    changed = {name for name, tensor in trainer.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("critic" in name for name in changed)
    trainer.start_segment(1)
    trainer.train_epoch()
    assert any(
        not torch.equal(tensor, before[name])
        for name, tensor in trainer.model.state_dict().items()
        if "policies" in name
    )


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda options: options["use"])
def test_burn_in_leaves_layers_that_policy_and_critic_share_as_they_are(make_trainer, algorithm, compiled):
    model = {"use": "concat", "blocks": {"seen": {"use": "dense", "hidden_units": [8]}}}
    model |= {"hidden": {"use": "dense", "hidden_units": [8]}, "critic": {"share_embedding": True}}
    options = {**algorithm, "critic_burn_in_epochs": 2, "compile": compiled}
    trainer = make_trainer(trainer=options, model=model)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    policy = trainer.model.policy_state_dict().keys()
    assert any("shared" in name for name in policy)
    for epoch, is_held in enumerate((True, True, False)):
        trainer.start_segment(epoch)
        trainer.train_epoch()
        changed = {name for name, own in trainer.model.state_dict().items() if not torch.equal(own, before[name])}
        assert changed - policy
        assert bool(changed & policy) != is_held


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda options: options["use"])
def test_a_policy_is_moved_by_the_learning_rate_once_the_burn_in_ends(make_trainer, algorithm, compiled):
    """Adam's first step is as long as the learning rate, for every weight with a gradient."""
    options = {**algorithm, "epoch_length": 30, "lr": 1e-3, "critic_burn_in_epochs": 1, "compile": compiled}
    if algorithm["use"] == "ppo":
        options |= {"n_optimization_epochs": 1, "batch_size": 1000}
    trainer = make_trainer(trainer=options)
    trainer.train_epoch()
    before = weights(trainer).clone()
    trainer.options = attrs.evolve(trainer.options, epoch_length=1)
    trainer.start_segment(1)
    trainer.train_epoch()
    assert float((weights(trainer) - before).abs().max()) == pytest.approx(1e-3, rel=0.01)
    assert float(trainer.state_dict()["optimizer"]["n_steps"]) == 1.0


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_minibatches_of_one_decision_train_the_policy(make_trainer, compiled):
    options = {**ALGORITHMS[0], "batch_size": 1, "n_rollout_steps": 4, "entropy_coef": 0.0, "compile": compiled}
    trainer = make_trainer(trainer=options, vector={"n_envs": 1})
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items() if "policies" in name}
    trainer.train_epoch()
    assert all(not torch.equal(trainer.model.state_dict()[name], tensor) for name, tensor in before.items())


def test_target_kl_stops_the_passes(make_trainer):
    calls = []
    for target_kl in (0.0, 1e-9):
        options = {**ALGORITHMS[0], "n_optimization_epochs": 6, "epoch_length": 1, "lr": 0.01, "target_kl": target_kl}
        trainer = make_trainer(trainer=options)
        trainer.train_epoch()
        calls.append(int(trainer.state_dict()["optimizer"]["n_steps"]))
    assert calls[1] < calls[0]


def test_the_learning_rate_follows_its_schedule(make_trainer):
    options = {**ALGORITHMS[1], "n_epochs": 4, "lr": {"start": 0.01, "end": 0.0}}
    trainer = make_trainer(trainer=options)
    rates = []
    for epoch in range(4):
        trainer.start_segment(epoch)
        rates.append(trainer.train_epoch()["ActorCriticEvents/learning_rate"])
    assert rates == pytest.approx([0.01 * (1 - (epoch + 1 / 2) / 4) for epoch in range(4)])  # of the second update


def test_a_non_finite_loss_stops_with_the_batch_and_leaves_the_weights(make_trainer):
    trainer = make_trainer(trainer=ALGORITHMS[0])
    trainer.train_epoch()
    before = weights(trainer).clone()
    original = trainer.collect

    def poisoned():
        rollout = original()
        rollout.reward[3, 1] = np.nan
        return rollout

    trainer.collect = poisoned
    with pytest.raises(NonFiniteError) as failure:
        trainer.train_epoch()
    assert torch.isfinite(weights(trainer)).all()
    assert torch.equal(weights(trainer), before)
    assert failure.value.batch["observation.observation"].shape[1:] == (4,)
    assert np.isnan(failure.value.batch["advantages"]).any()


def test_an_unknown_device_is_refused(make_trainer):
    with pytest.raises(RequestError, match="device"):
        make_trainer(trainer={**ALGORITHMS[0], "device": "quantum"})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_trains(make_trainer):
    trainer = make_trainer(trainer={**ALGORITHMS[0], "device": "cuda"})
    before = weights(trainer).clone()
    trainer.train_epoch()
    assert weights(trainer).is_cuda
    assert not torch.equal(weights(trainer), before)


@pytest.mark.slow
@pytest.mark.parametrize("options", ALGORITHMS, ids=["ppo", "a2c"])
def test_compiled_updates_equal_eager_ones(make_trainer, options):
    """The same rollouts, the same minibatches: weights agree to rounding."""
    eager = make_trainer(trainer={**options, "epoch_length": 1})
    compiled = make_trainer(trainer={**options, "epoch_length": 1, "compile": True})
    eager.train_epoch()
    compiled.train_epoch()
    np.testing.assert_allclose(weights(eager), weights(compiled), rtol=1e-4, atol=2e-6)


class BestInTheCorner(FlatEnv):
    """One step; the best action is a corner of the box, so a squashed policy narrows at its bounds."""

    structured_spaces = flat_spaces(
        spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (1,), np.float32)}),
        spaces.Dict({"action": spaces.Box(-2.0, 2.0, (2,), np.float32)}),
    )

    def reset(self, *, seed=None, options=None):
        return {"observation": np.zeros(1, np.float32)}, {}

    def step(self, action):
        distance = action["action"] - np.array([2.0, -2.0])
        return {"observation": np.zeros(1, np.float32)}, -float((distance**2).sum()), True, False, {}


@pytest.mark.parametrize("seed", [0, 4, 5])
def test_a_policy_that_narrows_at_the_bounds_learns_without_a_number_that_is_not_finite(make_trainer, seed):
    """Without entropy bonus and with large steps, standard deviations fall to the smallest and means leave the box."""
    options = {"use": "ppo", "n_rollout_steps": 16, "epoch_length": 25, "batch_size": 64, "n_optimization_epochs": 4}
    options |= {"lr": 1e-2, "max_grad_norm": 0.0, "gae_lambda": 1.0}
    trainer = make_trainer(
        env={"use": f"{__name__}:BestInTheCorner"},
        vector={"n_envs": 8, "mode": "sequential"},
        trainer={**options, "entropy_coef": 0.0},
        seed=seed,
    )
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(2)]
    assert rewards[1] > -0.5 > rewards[0]
