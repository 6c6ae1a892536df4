"""DQN as a user sees it: reproducible, resumable, with masks, several choices and policy keys."""

import sys

import numpy as np
import pytest
import torch

import maze_replay.frame_stacks
import maze_replay.memory
from maze_deployment.agent import AgentDeployment
from maze_kernel.errors import NonFiniteError, RequestError, SpaceError
from maze_runtime.context import RunContext
from maze_runtime.models.masking import MaskError
from maze_runtime.training import recorded_gradient
from maze_runtime.training.evaluation import Evaluator
from maze_testing.environments import MaskedDict
from maze_testing.trainers import check_trainer

HERE = __file__.rsplit("/", 1)[-1][:-3]
SMALL = {"use": "dqn", "epoch_length": 6, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 200}
MODEL = {"use": "auto", "hidden_units": [16]}
IDENTITY = "maze_testing.environments:Identity"
ENVS = {
    "discrete": {"use": "gym", "id": "CartPole-v1"},
    "multi-discrete": {"use": IDENTITY, "kind": "multi-discrete"},
    "masked": {"use": "maze_testing.environments:MaskedDict"},
    "two keys": {"use": "two_keys:SignThenVerdict"},
    "team": {"use": "maze_testing.structured_environments:ChangingTeam"},
}
EXTRAS = {"plain": {"double": False, "n_step": 1}, "all": {"duelling": True, "prioritized": True}}


class NothingAllowedInTheEnd(MaskedDict):
    """The last observation of a truncated episode allows nothing."""

    def step(self, action):
        observation, reward, ends, _, info = super().step(action)
        if ends:
            observation["pick_mask"][:] = 0
        return observation, reward, False, ends, info


STACKED = {"env": {"use": "film:Film"}, "wrappers": [{"use": "observation-stack", "n": 3}], "model": {"use": "auto"}}


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def tables(kind="discrete", **options):
    return {"env": ENVS[kind], "model": MODEL, "trainer": {**SMALL, **options}}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("extras", list(EXTRAS))
@pytest.mark.parametrize("kind", list(ENVS))
def test_it_passes_the_conformance_of_trainers(assemble, kind, extras):
    assembly = assemble(**tables(kind, **EXTRAS[extras]))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()), n_epochs=2, off_policy=True)


@pytest.mark.parametrize("extras", list(EXTRAS))
def test_stacks_of_frames_pass_it_too(assemble, extras):
    assembly = assemble(**STACKED, trainer={**SMALL, **EXTRAS[extras]})
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()), n_epochs=2, off_policy=True)


@pytest.mark.parametrize("extras", list(EXTRAS))
def test_stacks_that_are_kept_as_frames_teach_the_same_to_the_bit(make_trainer, monkeypatch, extras):
    learnt = []
    for keeps_frames in (True, False):
        if not keeps_frames:
            for module in (maze_replay.memory, maze_replay.frame_stacks):
                monkeypatch.setattr(module, "may_be_stacked", lambda _space: False)
        trainer = make_trainer(**STACKED, trainer={**SMALL, **EXTRAS[extras], "replay_buffer_size": 1000})
        assert bool(trainer._play.replay["0"]._memory.stacks) == keeps_frames
        for _ in range(3):
            trainer.train_epoch()
        learnt.append(weights(trainer))
    assert torch.equal(*learnt)


def test_the_first_epoch_fills_the_buffer_first(make_trainer):
    trainer = make_trainer(**tables())
    statistics = trainer.train_epoch()
    n_filled = trainer.env_steps - 6 * 2
    assert n_filled in (40, 41)  # an environment that begins anew takes no step meanwhile
    assert statistics["DQNEvents/buffer_size"] == trainer.env_steps
    # one for each step of both environments
    assert statistics["DQNEvents/n_updates"] == 12
    assert trainer.train_epoch()["DQNEvents/n_updates"] == trainer.env_steps - n_filled


def test_updates_an_iteration_may_be_fewer_than_steps(make_trainer):
    trainer = make_trainer(**tables(num_batches_per_iter=1))
    assert trainer.train_epoch()["DQNEvents/n_updates"] == 6


def test_epsilon_falls_over_its_part_of_the_budget(make_trainer):
    trainer = make_trainer(
        **tables(max_env_steps=0, n_epochs=10, exploration_fraction=0.5, epsilon={"start": 0.8, "end": 0.2})
    )
    found = [trainer.train_epoch()["DQNEvents/epsilon"] for _ in range(8)]
    # at the last iteration of each epoch, 5/6 of it
    expected = [max(0.2, 0.8 - 0.6 * (epoch + 5 / 6) / 5) for epoch in range(8)]
    np.testing.assert_allclose(found, expected)


def test_evaluation_does_not_explore(assemble):
    assembly = assemble(**tables(epsilon=1.0))
    context = assembly.trainer_context()
    trainer = assembly.make_trainer(context)
    from maze_kernel.contracts.vector import Group

    group = Group(np.arange(2), np.zeros(2, np.int64), {"observation": np.ones((2, 4), np.float32)})
    policy = context.make_policy(trainer.model, 0)
    acts = [policy.act("0", group, deterministic=True)["action"].tolist() for _ in range(8)]
    assert all(act == acts[0] for act in acts)
    trainer.close()


def test_values_are_no_probabilities_to_draw_by(tmp_path):
    given = {"env": "CartPole-v1", "overrides": {"evaluation.n_episodes": 1}, "silent": True}
    context = RunContext(trainer=SMALL, run_dir=tmp_path / "run", **given)
    context.train(n_epochs=1)
    observations = np.random.default_rng(0).normal(0.0, 0.1, (40, 4)).astype(np.float32)
    best, drawn = (
        [context.compute_action(one, deterministic=deterministic) for one in observations]
        for deterministic in (True, False)
    )
    assert drawn == best
    with pytest.raises(RequestError, match="have no probabilities"):
        context.top_actions(observations[0])
    with AgentDeployment.load(context, deterministic=False) as agent:
        assert [agent.act(one) for one in observations] == best
        with pytest.raises(RequestError, match="no decision whose actions have probabilities"):
            agent.top_actions()
    results = [context.rollout(3, seed=1, deterministic=deterministic) for deterministic in (True, False)]
    assert results[0].summary == results[1].summary


def test_an_evaluation_that_may_draw_takes_the_best_action_as_well(assemble):
    found = []
    for deterministic in (True, False):
        assembly = assemble(**tables(), evaluation={"n_episodes": 4, "deterministic": deterministic})
        evaluation = Evaluator(assembly)
        found.append([result.length for result in evaluation.play(assembly.make_model())])
        evaluation.close()
    assert found[0] == found[1]


def test_policy_keys_have_statistics_of_their_own(make_trainer):
    statistics = make_trainer(**tables("two keys")).train_epoch()
    for name in ("loss", "q_value", "td_error"):
        parts = [statistics[f"DQNEvents/{name}/{key}"] for key in ("name", "judge")]
        assert statistics[f"DQNEvents/{name}"] == pytest.approx(np.mean(parts), rel=1e-5)


def test_errors_become_priorities(make_trainer):
    trainer = make_trainer(**tables(prioritized=True))
    trainer.train_epoch()
    priorities = trainer._play.replay["0"]._priorities.array
    assert len(np.unique(priorities[priorities > 0])) > 10


def test_numbers_are_refused(make_trainer):
    with pytest.raises(SpaceError, match="cannot value the numbers") as refusal:
        make_trainer(**{**tables(), "env": {"use": IDENTITY, "kind": "box"}})
    assert "sac" in refusal.value.help


def test_bits_alone_need_the_value_of_the_state(make_trainer):
    bits = {"use": IDENTITY, "kind": "multi-binary"}
    with pytest.raises(SpaceError, match="bits alone") as refusal:
        make_trainer(**{**tables(), "env": bits})
    assert "duelling" in refusal.value.help
    make_trainer(**{**tables(duelling=True), "env": bits}).train_epoch()


def test_networks_of_single_agents_are_refused(make_trainer):
    pair = {"use": "maze_testing.structured_environments:Pair"}
    with pytest.raises(RequestError, match="networks of their own"):
        make_trainer(env=pair, trainer=SMALL, model={**MODEL, "separate_agent_nets": ["agent"]})


def test_a_truncated_observation_whose_mask_forbids_everything_is_refused(make_trainer):
    trainer = make_trainer(env={"use": f"{HERE}:NothingAllowedInTheEnd"}, trainer=SMALL, model=MODEL)
    with pytest.raises(MaskError, match=r"'pick'.*truncated"):
        trainer.train_epoch()


def test_a_non_finite_batch_stops_and_leaves_the_weights(make_trainer):
    trainer = make_trainer(**tables())
    trainer.train_epoch()
    trainer._play.replay["0"]._memory.reward.fill(np.nan)
    with pytest.raises(NonFiniteError) as failure:
        trainer.train_epoch()
    assert torch.isfinite(weights(trainer)).all()
    assert np.isnan(failure.value.batch["reward"]).any()


def test_rows_that_only_reset_are_not_stored(make_trainer):
    """Native CartPole spends a row on every reset."""
    trainer = make_trainer(**tables(replay_buffer_size=5000), vector={"n_envs": 4, "mode": "native"})
    assert trainer.train_epoch()["DQNEvents/buffer_size"] == trainer.env_steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi-discrete", "masked", "two keys"])
def test_a_small_task_is_learnt(make_trainer, kind):
    options = {
        "epoch_length": 400,
        "batch_size": 64,
        "lr": 3e-3,
        "n_step": 1,
        "gamma": 0.5,
        "replay_buffer_size": 5000,
    }
    trainer = make_trainer(**tables(kind, **options, max_env_steps=3000, tau=0.05))
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(4)]
    assert rewards[-1] > GOOD[kind], rewards


GOOD = {"multi-discrete": 7.3, "masked": 6.5, "two keys": 13.0}
"""Mean reward with the last exploration in it."""


@pytest.mark.parametrize("extras", list(EXTRAS))
@pytest.mark.parametrize("kind", list(ENVS))
def test_recorded_updates_are_the_plain_ones_bit_for_bit(make_trainer, monkeypatch, kind, extras):
    recorded, plain = (
        make_trainer(**tables(kind, **EXTRAS[extras], epoch_length=60, num_batches_per_iter=1)) for _ in range(2)
    )
    recorded.train_epoch()
    update = recorded._update
    gradients = (update._step._recorded,)
    assert all(any(form.replay is not None for form in one._forms.values()) for one in gradients)
    monkeypatch.setattr(recorded_gradient, "N_PLAIN", 10**9)
    plain.train_epoch()
    assert torch.equal(weights(recorded), weights(plain))


@pytest.mark.slow
def test_compiled_updates_come_to_the_same(make_trainer):
    learnt = []
    for compiled in (False, True):
        trainer = make_trainer(**tables("two keys", duelling=True, prioritized=True, compile=compiled))
        trainer.train_epoch()
        learnt.append(weights(trainer))
    torch.testing.assert_close(*learnt, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_memory_is_flat_once_the_replay_buffer_is_full(make_trainer, assert_flat):
    trainer = make_trainer(**tables(prioritized=True))
    assert_flat(trainer.train_epoch, warm_up=50, n=200)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_trains(make_trainer):
    trainer = make_trainer(**tables(device="cuda", prioritized=True))
    before = weights(trainer).clone()
    trainer.train_epoch()
    assert weights(trainer).is_cuda
    assert not torch.equal(weights(trainer), before)
