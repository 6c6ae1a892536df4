"""Training as a user sees it: seeds, resuming, actors in processes that lag behind and die, refusals."""

import os
import signal
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for distant_pool

from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import MazeError, NonFiniteError, RequestError, WorkerError
from maze_testing.environments import Identity
from maze_testing.trainers import check_trainer

PROBE = "maze_testing.environments:"
PLACE = "maze_testing.structured_environments:"
PROCESSES = {"use": "subprocess", "count": 2, "preload": ["maze_impala.actor"]}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


def kill(trainer, worker, number=signal.SIGKILL):
    os.kill(trainer._queue._group.process_id(worker), number)


def train_until(trainer, condition):
    while not condition():
        trainer.train_epoch()


def served_workers(trainer):
    """The worker of every rollout that arrives from now on."""
    served, group = [], trainer._queue._group
    forgive = group.forgive
    group.forgive = lambda worker: (served.append(worker), forgive(worker))
    return served


def structured(name, critic="shared-state", **model):
    """Tables of a structured environment."""
    return {"env": {"use": PLACE + name}, "model": {"use": "auto", "hidden_units": [8], "critic": critic, **model}}


TAKING_TURNS = [
    pytest.param(structured("Hierarchy"), id="shared critic"),
    pytest.param(structured("ChangingTeam", "step-state"), id="step critic"),
    pytest.param(structured("DoorAndKey", "delta-state"), id="delta critic"),
    pytest.param(structured("Pair", "step-state", separate_agent_nets=["agent"]), id="own networks"),
    pytest.param({"vector": {"mode": "native"}}, id="native"),
    pytest.param({"vector": {"mode": "sequential"}}, id="sequential"),
    pytest.param({"trainer": {"actors_batch_size": 3, "num_actors": 5}}, id="uneven"),
    pytest.param({"workers": {"use": "inline", "count": 3}}, id="inline-pool"),
    pytest.param({"workers": PROCESSES, "trainer": {"deterministic": True}}, id="processes", marks=pytest.mark.slow),
    pytest.param(
        {**structured("Hierarchy", "delta-state"), "workers": PROCESSES, "trainer": {"deterministic": True}},
        id="structured-processes",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("tables", TAKING_TURNS)
class TestTakingTurns:
    def test_a_restored_trainer_goes_on_bit_for_bit(self, assemble, tables):
        def make():
            assembly = assemble(**tables)
            return assembly.make_trainer(assembly.trainer_context())

        check_trainer(make)

    def test_the_seed_decides(self, make_trainer, tables):
        trainers = [make_trainer(seed=seed, **tables) for seed in (0, 0, 1)]
        for trainer in trainers:
            trainer.train_epoch()
        assert torch.equal(weights(trainers[0]), weights(trainers[1]))
        assert not torch.equal(weights(trainers[0]), weights(trainers[2]))


@pytest.mark.parametrize(
    "tables", [{}, structured("Hierarchy", "delta-state"), structured("ChangingTeam", "step-state")]
)
def test_without_shared_memory_the_same_is_learnt(make_trainer, tables):
    pools = ("inline", "maze_testing.by_value_pool:ByValuePool")
    trainers = [make_trainer(workers={"use": pool, "count": 2}, **tables) for pool in pools]
    for trainer in trainers:
        trainer.train_epoch()
        trainer.train_epoch()
    assert not trainers[1]._queue._pool.shares_memory
    assert torch.equal(weights(trainers[0]), weights(trainers[1]))


@pytest.mark.slow
def test_distant_actors_work_ahead_of_the_learner(make_trainer):
    trainer = make_trainer(workers={"use": "distant_pool:DistantPool", "count": 2})
    served = served_workers(trainer)
    train_until(trainer, lambda: {0, 1} <= set(served))
    statistics = trainer.train_epoch()
    assert trainer._queue._is_asynchronous
    assert np.isfinite(statistics["BaseEnvEvents/reward/mean"])


def test_every_decision_is_trained_on_once(make_trainer):
    """Rewards of 1 a step: what reaches the batches is what the actors played, whatever the sizes."""
    options = {"num_actors": 5, "actors_batch_size": 3, "epoch_length": 5, "n_rollout_steps": 7}
    trainer = make_trainer(trainer=options, vector={"mode": "sequential"}, workers={"use": "inline", "count": 2})
    seen = []
    fill = trainer._queue.fill

    def remember(buffer):
        fill(buffer)
        seen.extend(buffer.rollouts.observation["observation"][:, b, 0].copy() for b in range(3))

    trainer._queue.fill = remember
    trainer.train_epoch()
    assert trainer.env_steps == 5 * 3 * 7
    assert len({rollout.tobytes() for rollout in seen}) == 15


def test_the_first_batch_is_on_policy_and_later_ones_of_a_round_lag(make_trainer):
    trainer = make_trainer(trainer={"num_actors": 6, "actors_batch_size": 2, "epoch_length": 3})
    statistics = trainer.train_epoch()
    lags = [statistics[f"ImpalaEvents/policy_lag/{name}"] for name in ("min", "mean", "max")]
    assert lags == [0, 1.0, 2]
    assert statistics["ImpalaEvents/importance_ratio"] != 1.0


def test_without_lag_the_ratios_are_one(make_trainer):
    statistics = make_trainer().train_epoch()
    assert statistics["ImpalaEvents/policy_lag/max"] == 0
    assert statistics["ImpalaEvents/importance_ratio"] == pytest.approx(1.0, abs=1e-5)
    assert statistics["ActorCriticEvents/approx_kl"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("kind", ["discrete", "multi-discrete", "multi-binary", "box"])
def test_every_action_space(make_trainer, kind):
    trainer = make_trainer(env={"use": PROBE + "Identity", "kind": kind})
    before = weights(trainer).clone()
    statistics = trainer.train_epoch()
    assert not torch.equal(weights(trainer), before)
    assert all(np.isfinite(value) for value in statistics.values())


def test_masks_and_dict_actions(make_trainer):
    assert np.isfinite(make_trainer(env={"use": PROBE + "MaskedDict"}).train_epoch()["ActorCriticEvents/grad_norm"])


def test_a_batch_of_resets_alone_is_no_update(make_trainer):
    """With one decision a rollout, each reset of native CartPole is a rollout of its own."""
    small = {"n_rollout_steps": 1, "num_actors": 1, "actors_batch_size": 1, "epoch_length": 60}
    trainer = make_trainer(trainer=small, vector={"mode": "native"})
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] > 1
    assert trainer._version == trainer.env_steps < 60
    assert statistics["ActorCriticEvents/entropy"] > 0.5
    trainer.options = attrs.evolve(trainer.options, epoch_length=1)
    epochs = [trainer.train_epoch() for _ in range(60)]
    without = [statistics for statistics in epochs if "ActorCriticEvents/entropy" not in statistics]
    assert 0 < len(without) < 60
    assert all("ImpalaEvents/policy_lag/mean" not in statistics for statistics in without)


def test_statistics_have_the_documented_tags(make_trainer):
    statistics = make_trainer(trainer={"n_rollout_steps": 32}).train_epoch()
    learner = "policy_loss value_loss entropy approx_kl explained_variance learning_rate value"
    learner += " grad_norm policy_grad_norm critic_grad_norm"
    own = "importance_ratio clip_fraction policy_lag/mean policy_lag/min policy_lag/max actor_restarts"
    assert {f"ActorCriticEvents/{name}" for name in learner.split()} <= set(statistics)
    assert {f"ImpalaEvents/{name}" for name in own.split()} <= set(statistics)
    assert {"Timing/rollout_seconds", "Timing/update_seconds", "Timing/env_steps_per_second"} <= set(statistics)
    assert statistics["BaseEnvEvents/episode_count"] > 0
    assert statistics["BaseEnvEvents/reward/mean"] == statistics["BaseEnvEvents/episode_length/mean"]


def test_events_of_the_environments_reach_the_run(assemble):
    assembly = assemble(env={"use": "cutting-2d"}, trainer={"n_rollout_steps": 60})
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    trainer.train_epoch()
    trainer.close()
    assert any(tag.startswith("CuttingEvents/") for tag in assembly.training_batches.drain_event_statistics())


def test_burn_in_trains_the_critic_alone(make_trainer):
    trainer = make_trainer(trainer={"critic_burn_in_epochs": 1})
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train_epoch()
    changed = {name for name, tensor in trainer.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("critic" in name for name in changed)
    trainer.train_epoch()
    after = trainer.model.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in before if "policies" in name)


def test_a_policy_is_moved_by_the_learning_rate_once_the_burn_in_ends(make_trainer):
    trainer = make_trainer(trainer={"epoch_length": 20, "lr": 1e-3, "critic_burn_in_epochs": 1})
    trainer.train_epoch()
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.options = attrs.evolve(trainer.options, epoch_length=1)
    trainer.train_epoch()
    moved = [(tensor - before[name]).abs().max() for name, tensor in trainer.model.state_dict().items()]
    assert float(max(moved)) == pytest.approx(1e-3, rel=0.01)


def test_the_learning_rate_follows_its_schedule(make_trainer):
    trainer = make_trainer(trainer={"n_epochs": 4, "lr": {"start": 0.01, "end": 0.0}})
    rates = [trainer.train_epoch()["ActorCriticEvents/learning_rate"] for _ in range(4)]
    last = [(epoch + 2 / 3) / 4 for epoch in range(4)]  # of three updates
    assert rates == pytest.approx([0.01 * (1 - part) for part in last])


def test_clipped_rewards_change_what_is_learnt_and_not_the_statistics(make_trainer):
    clipped, plain = (
        make_trainer(trainer={"reward_clipping": clipping, "n_rollout_steps": 32})
        for clipping in ("soft_asymmetric", "none")
    )
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for trainer in (clipped, plain)]
    assert all(reward == int(reward) or reward > 1 for reward in rewards)
    assert not torch.equal(weights(clipped), weights(plain))


def test_a_non_finite_loss_stops_with_the_batch_and_leaves_the_weights(make_trainer):
    trainer = make_trainer()
    trainer.train_epoch()
    before = weights(trainer).clone()
    fill = trainer._queue.fill

    def poisoned(buffer):
        fill(buffer)
        buffer.rollouts.reward[3, 1] = np.nan

    trainer._queue.fill = poisoned
    with pytest.raises(NonFiniteError, match="update 1 of epoch 2") as failure:
        trainer.train_epoch()
    assert torch.equal(weights(trainer), before)
    assert np.isnan(failure.value.batch["reward"]).sum() == 1


def test_a_non_finite_reward_of_any_sub_step_stops_with_the_batch(make_trainer):
    trainer = make_trainer(**structured("Hierarchy"))
    fill = trainer._queue.fill

    def poisoned(buffer):
        fill(buffer)
        step, env = np.argwhere(~buffer.rollouts.flat_step_end)[0]
        buffer.rollouts.actor_reward[step, env] = np.nan

    trainer._queue.fill = poisoned
    with pytest.raises(NonFiniteError, match="update 1 of epoch 1") as failure:
        trainer.train_epoch()
    assert {"actor_reward", "observation.manager.shown", "action.worker.choice"} <= set(failure.value.batch)


def test_environment_steps_are_flat_steps(make_trainer):
    """Two decisions a flat step, eight flat steps an episode."""
    trainer = make_trainer(**structured("DoorAndKey"), trainer={"n_rollout_steps": 32})
    statistics = trainer.train_epoch()
    assert trainer.env_steps == 3 * 4 * 32 // 2
    assert statistics["BaseEnvEvents/episode_length/mean"] == 8.0


def test_a_policy_key_that_nobody_decides_with_does_no_harm(make_trainer):
    """A rollout of one decision, and only managers have decided yet."""
    trainer = make_trainer(**structured("Hierarchy"), trainer={"n_rollout_steps": 1, "epoch_length": 1})
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    assert all(np.isfinite(value) for value in trainer.train_epoch().values())
    after = trainer.model.state_dict()
    changed = {name for name in before if "policies" in name and not torch.equal(before[name], after[name])}
    assert changed
    assert all("manager" in name for name in changed)


def test_an_unknown_device_is_refused(make_trainer):
    with pytest.raises(RequestError, match="device"):
        make_trainer(trainer={"device": "quantum"})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_trains(make_trainer):
    trainer = make_trainer(trainer={"device": "cuda"})
    before = weights(trainer).clone()
    trainer.train_epoch()
    assert weights(trainer).is_cuda
    assert not torch.equal(weights(trainer), before)


COMPILED = [
    pytest.param({}, id="flat"),
    pytest.param(structured("Hierarchy"), id="shared critic"),
    pytest.param(structured("ChangingTeam", "step-state"), id="step critic"),
    pytest.param(structured("DoorAndKey", "delta-state"), id="delta critic"),
]


@pytest.mark.slow
@pytest.mark.parametrize("tables", COMPILED)
def test_compiled_updates_equal_eager_ones(make_trainer, tables):
    """The numbers of decisions a policy key differ from batch to batch."""
    eager, compiled = (
        make_trainer(**tables, trainer={"compile": compile_, "epoch_length": 4}) for compile_ in (False, True)
    )
    for trainer in (eager, compiled):
        trainer.train_epoch()
    np.testing.assert_allclose(weights(eager), weights(compiled), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("tables", COMPILED)
def test_recorded_updates_equal_plain_ones_bit_for_bit(make_trainer, tables):
    recorded, plain = (make_trainer(**tables, trainer={"epoch_length": 60}) for _ in range(2))
    plain._gradient_step._recorded = None
    for trainer in (recorded, plain):
        trainer.train_epoch()
    assert torch.equal(weights(recorded), weights(plain))
    if not tables:
        assert any(form.replay is not None for form in recorded._gradient_step._recorded._forms.values())


# Actors in processes


@pytest.mark.slow
def test_actors_in_processes_run_ahead_but_no_further_than_the_queue(make_trainer):
    options = {"num_actors": 4, "actors_batch_size": 4, "queue_out_of_sync_factor": 2.0}
    trainer = make_trainer(trainer=options, workers=PROCESSES)
    group, pending = trainer._queue._group, trainer._queue._pending
    assert len(pending) == 2 * 3  # one in progress and two that wait, a worker
    for call in pending:
        call.future.result()  # the learner has taken nothing, yet all of them were made
    statistics = trainer.train_epoch()
    assert statistics["ImpalaEvents/policy_lag/max"] == 2
    assert len(trainer._queue._pending) + len(trainer._queue._arrived) == 2 * 3
    assert group.restarts(0) == group.restarts(1) == 0


@pytest.mark.slow
def test_an_actor_that_dies_is_replaced_and_training_goes_on(make_trainer):
    trainer = make_trainer(workers=PROCESSES)
    queue, served = trainer._queue, served_workers(trainer)
    for n_restarts in (1, 2):
        kill(trainer, 1)
        with pytest.warns(RuntimeWarning, match="actor 1 .*it is replaced"):
            train_until(trainer, lambda n=n_restarts: queue.n_restarts == n)
        served.clear()
        train_until(trainer, lambda: 1 in served)
    assert trainer.train_epoch()["ImpalaEvents/actor_restarts"] == 2
    assert torch.isfinite(weights(trainer)).all()


@pytest.mark.slow
def test_structured_rollouts_of_processes_lag_and_survive_a_killed_actor(make_trainer):
    """Final observations of cut episodes travel beside the arrays."""
    options = {"actors_batch_size": 3, "n_rollout_steps": 9}
    wrappers = [{"use": "time-limit", "max_episode_steps": 3}]
    trainer = make_trainer(**structured("Hierarchy"), trainer=options, wrappers=wrappers, workers=PROCESSES)
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_length/mean"] == 3.0
    assert statistics["ImpalaEvents/policy_lag/max"] > 0
    kill(trainer, 1)
    with pytest.warns(RuntimeWarning, match="actor 1 .*it is replaced"):
        train_until(trainer, lambda: trainer._queue.n_restarts == 1)
    served = served_workers(trainer)
    train_until(trainer, lambda: 1 in served)
    assert torch.isfinite(weights(trainer)).all()


class Crashing(Identity):
    """Ends its process in its first step."""

    def step(self, action):
        os._exit(3)


class Raising(Identity):
    """Raises in its first step."""

    def step(self, action):
        raise ZeroDivisionError("nothing to divide by")


class NotFinite(Identity):
    """Rewards NaN."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


@pytest.mark.slow
def test_actors_that_die_again_and_again_stop_the_run_with_the_cause(make_trainer):
    trainer = make_trainer(env={"use": f"{__name__}:Crashing"}, trainer={"max_actor_restarts": 2}, workers=PROCESSES)
    with pytest.warns(RuntimeWarning, match="replaced"), pytest.raises(WorkerError, match="exited with code 3"):
        trainer.train_epoch()


@pytest.mark.parametrize("workers", [{"use": "inline"}, pytest.param(PROCESSES, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("env", "message"), [("Raising", "nothing to divide by"), ("NotFinite", "reward")])
def test_an_environment_that_raises_stops_the_run(make_trainer, monkeypatch, workers, env, message):
    trainer = make_trainer(env={"use": f"{__name__}:{env}"}, workers=workers)
    with pytest.raises(MazeError, match=message) as failure:
        trainer.train_epoch()
    assert "environment" in str(failure.value.owner)


@pytest.mark.parametrize("pool", ["inline", "maze_testing.by_value_pool:ByValuePool"])
def test_estimated_statistics_travel_to_several_actors(assemble, pool):
    estimated = {"use": "observation-normalization", "n_estimation_steps": 50}
    learnt = []
    for workers in ({"use": "inline", "count": 2}, {"use": pool, "count": 2}):
        assembly = assemble(wrappers=[estimated], workers=workers)
        trainer = assembly.make_trainer(assembly.trainer_context())
        assembly.estimate_transforms()
        trainer.start_segment(0)
        trainer.train_epoch()
        learnt.append(weights(trainer))
        trainer.close()
    assert torch.equal(*learnt)
    assert assembly.transform_states()[0]["estimated"]


class Watching(Transform):
    """Learns from steps and keeps it to itself."""

    def observe_step(self, *arguments):
        pass


def test_statistics_that_nobody_can_bring_together_are_refused(make_trainer):
    with pytest.raises(RequestError, match="Watching keeps running statistics"):
        make_trainer(wrappers=[{"use": f"{__name__}:Watching"}])


@pytest.mark.slow
def test_actors_in_processes_share_what_they_see(assemble):
    running = {"use": "observation-normalization", "statistics": "running"}
    assembly = assemble(wrappers=[running, {"use": "return-normalization"}], workers=PROCESSES)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    counts = []
    for _ in range(4):
        trainer.train_epoch()
        observations, returns = assembly.transform_states()
        counts.append(observations["estimated"]["observation"]["count"])
        assert counts[-1] >= returns["count"] >= trainer.env_steps
    trainer.close()
    assert counts == sorted(set(counts))


@pytest.mark.slow
def test_a_hanging_environment_ends_in_an_error(make_trainer):
    workers = {**PROCESSES, "timeout_seconds": 5.0}
    trainer = make_trainer(workers=workers, trainer={"max_actor_restarts": 0})
    kill(trainer, 0, signal.SIGSTOP)
    with pytest.raises(WorkerError, match="did not answer"):
        train_until(trainer, lambda: False)
