"""Training as a user sees it: seeds, resuming, episodes, steps, workers, refusals."""

import warnings

import numpy as np
import pytest
import torch

from maze_es.population import Pairs
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import MazeError, MazeWarning, RequestError
from maze_testing.trainers import check_trainer

PROBE = "maze_testing.environments:"
STRUCTURED = "maze_testing.structured_environments:"
TABLE = {"noise": {"use": "table", "size": 200_000}}


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("mode", ["native", "sequential"])
@pytest.mark.parametrize("noise", [{}, TABLE], ids=["seeded", "table"])
@pytest.mark.parametrize(
    "optimizer",
    [{"use": "adam", "step_size": {"start": 0.1}}, {"use": "sgd"}, {"use": "torch.optim:RMSprop"}],
    ids=["adam", "sgd", "rmsprop"],
)
def test_a_restored_trainer_goes_on_bit_for_bit(assemble, mode, noise, optimizer):
    def make():
        trainer = {**noise, "optimizer": optimizer, "n_epochs": 8}
        assembly = assemble(trainer=trainer, vector={"n_envs": 2, "mode": mode})
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_step_size_and_noise_follow_their_schedules(make_trainer, shape):
    schedule = {"start": 0.1, "end": 0.02, "shape": shape}
    options = {"optimizer": {"use": "adam", "step_size": schedule}, "noise_stddev": schedule, "n_epochs": 4}
    trainer = make_trainer(trainer=options)
    statistics = [trainer.train_epoch() for _ in range(4)]
    for name in ("step_size", "noise_stddev"):
        values = [of_epoch[f"ESEvents/{name}"] for of_epoch in statistics]
        assert values[0] == 0.1
        assert values[2] == pytest.approx(0.06)  # half of the budget is used
        assert values == sorted(values, reverse=True)


def test_the_seed_decides(make_trainer):
    trainers = [make_trainer(seed=seed) for seed in (0, 0, 1)]
    for trainer in trainers:
        trainer.train_epoch()
    assert torch.equal(weights(trainers[0]), weights(trainers[1]))
    assert not torch.equal(weights(trainers[0]), weights(trainers[2]))


@pytest.mark.parametrize(
    ("mode", "options"),
    [("native", {}), ("native", {"deterministic": True}), ("sequential", {"deterministic": True})],
)
def test_both_halves_meet_the_same_episodes(make_trainer, mode, options):
    """Without noise, common random numbers make the halves equal step for step, in every batch of a population."""
    trainer = make_trainer(vector={"n_envs": 2, "mode": mode}, trainer={"noise_stddev": 1e-12, **options})
    center = trainer._flat.data.numpy().copy()
    pairs = trainer._draw(5)
    outcome = trainer._population.play(center, pairs)
    np.testing.assert_array_equal(outcome.returns[0], outcome.returns[1])
    assert len(set(outcome.lengths[0])) > 1
    again = trainer._population.play(center, pairs)
    np.testing.assert_array_equal(outcome.returns, again.returns)


def test_every_pair_has_an_episode_and_a_perturbation_of_its_own(make_trainer):
    trainer = make_trainer()
    drawn = [trainer._draw(50) for _ in range(2)]
    for name in ("noise_indices", "env_seeds"):
        values = np.concatenate([getattr(pairs, name) for pairs in drawn])
        assert len(set(values.tolist())) == 100
    assert drawn[0].policy_seed != drawn[1].policy_seed


@pytest.mark.parametrize("options", [{}, {"max_steps": 50}, {"n_timesteps_per_update": 400}])
def test_with_same_episode_all_members_of_an_update_meet_it(make_trainer, options):
    """Without noise they are equal step for step, and the next update has another episode."""
    options = {"noise_stddev": 1e-12, "deterministic": True, "same_episode": True, "l2_penalty": 0.0, **options}
    trainer = make_trainer(vector={"n_envs": 2, "mode": "sequential"}, trainer=options)
    lengths = []
    for _ in range(6):
        statistics = trainer.train_epoch()
        assert statistics["BaseEnvEvents/episode_count"] >= 6
        assert statistics["BaseEnvEvents/reward/min"] == statistics["BaseEnvEvents/reward/max"]
        assert statistics["ESEvents/gradient_norm"] == 0.0
        lengths.append(statistics["BaseEnvEvents/episode_length/mean"])
    assert len(set(lengths)) > 1


def test_same_episode_is_refused_where_a_batch_reads_one_seed(make_trainer):
    with pytest.raises(RequestError, match="same_episode") as refusal:
        make_trainer(vector={"n_envs": 2, "mode": "native"}, trainer={"same_episode": True})
    assert "sequential" in refusal.value.help


def test_the_first_episode_of_each_member_counts(make_trainer):
    """One reward a step: returns are lengths, and the steps of the run are those of the counted episodes."""
    trainer = make_trainer()
    statistics = trainer.train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] == 6
    assert trainer.env_steps == round(6 * statistics["BaseEnvEvents/episode_length/mean"])
    assert statistics["BaseEnvEvents/reward/mean"] == statistics["BaseEnvEvents/episode_length/mean"]


def test_an_update_waits_for_enough_steps(make_trainer):
    trainer = make_trainer(trainer={"n_timesteps_per_update": 500})
    statistics = trainer.train_epoch()
    assert trainer.env_steps >= 500
    count = statistics["BaseEnvEvents/episode_count"]
    assert count > 6
    assert count % 6 == 0
    assert statistics["ESEvents/pair_count"] == count / 2


def test_max_steps_cuts_the_episodes(make_trainer):
    statistics = make_trainer(trainer={"max_steps": 5}).train_epoch()
    assert statistics["BaseEnvEvents/reward/max"] == 5.0


def test_an_odd_number_of_episodes_is_rounded_up(make_trainer):
    statistics = make_trainer(trainer={"n_rollouts_per_update": 5}).train_epoch()
    assert statistics["BaseEnvEvents/episode_count"] == 6


def test_equal_returns_leave_only_the_weight_decay(make_trainer):
    env = {"use": PROBE + "ConstantReward"}
    still = make_trainer(env=env, trainer={"l2_penalty": 0.0})
    before = weights(still).clone()
    statistics = still.train_epoch()
    assert torch.equal(weights(still), before)
    assert statistics["ESEvents/gradient_norm"] == 0.0
    decaying = make_trainer(env=env, trainer={"l2_penalty": 0.1, "optimizer": {"use": "sgd"}})
    assert decaying.train_epoch()["ESEvents/update_norm"] > 0.0
    assert decaying._flat.data.norm() < still._flat.data.norm()


def test_opponents_that_win_from_each_other_are_told_of_once(make_trainer):
    def trained(**options):
        game = {"use": "pettingzoo", "id": "pettingzoo.classic.tictactoe_v3", **options}
        trainer = make_trainer(env=game, trainer={"n_rollouts_per_update": 20})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", MazeWarning)
            for _ in range(2):
                trainer.train_epoch()
        return [str(one.message) for one in told if issubclass(one.category, MazeWarning)]

    (words,) = trained()
    assert "20 episodes of an update brought 0" in words
    assert trained(random_agents=["player_1"]) == []  # what one agent is paid says who won


def test_the_critic_is_left_alone(make_trainer):
    trainer = make_trainer()
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train_epoch()
    changed = {name for name, tensor in trainer.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert changed <= set(trainer.model.policy_state_dict())


@pytest.mark.parametrize("kind", ["discrete", "multi-discrete", "multi-binary", "box"])
def test_every_action_space(make_trainer, kind):
    statistics = make_trainer(env={"use": PROBE + "Identity", "kind": kind}).train_epoch()
    assert np.isfinite(statistics["BaseEnvEvents/reward/mean"])
    assert statistics["ESEvents/update_norm"] > 0.0


def test_masks_and_dict_actions(make_trainer):
    assert make_trainer(env={"use": PROBE + "MaskedDict"}).train_epoch()["ESEvents/update_norm"] > 0.0


@pytest.mark.parametrize("pool", ["inline", "maze_testing.by_value_pool:ByValuePool"])
@pytest.mark.parametrize("noise", [{}, TABLE], ids=["seeded", "table"])
def test_workers_play_what_one_process_plays(make_trainer, noise, pool):
    """Acting by the mode on sequential environments, an episode depends on its seed and its member alone."""
    tables = {"trainer": {**noise, "deterministic": True}, "vector": {"n_envs": 2, "mode": "sequential"}}
    here = make_trainer(**tables)
    there = make_trainer(**tables, workers={"use": pool, "count": 2})
    for trainer in (here, there):
        trainer.train_epoch()
        trainer.train_epoch()
    assert torch.equal(weights(here), weights(there))


@pytest.mark.parametrize("pool", ["inline", "maze_testing.by_value_pool:ByValuePool"])
def test_the_noise_table_lies_once_on_a_machine(make_trainer, pool):
    population = make_trainer(trainer=TABLE, workers={"use": pool, "count": 2})._population
    table = population.noise.table
    assert table.std() == pytest.approx(1.0, abs=0.01)
    assert not table.flags.writeable
    for actor in population._group._actors:
        assert np.shares_memory(table, getattr(actor, "_actor", actor)._table)


@pytest.mark.parametrize("mode", ["subprocess", "workers"])
def test_workers_start_no_workers_for_their_environments(make_trainer, monkeypatch, mode):
    workers = {"use": "maze_testing.by_value_pool:ByValuePool", "count": 2}
    here = make_trainer(vector={"n_envs": 2}, workers=workers)
    here.train_epoch()
    monkeypatch.setattr("maze_processes.subprocess_mode.subprocess_batch", None)
    there = make_trainer(vector={"n_envs": 2, "mode": mode}, workers=workers)
    there.train_epoch()
    assert torch.equal(weights(here), weights(there))


def test_workers_draw_different_noise(make_trainer):
    trainer = make_trainer(trainer=TABLE, workers={"use": "inline", "count": 3})
    population = trainer._population
    asked = []
    population.noise  # noqa: B018 starts the workers
    for actor in population._group._actors:
        original = actor.play
        actor.play = lambda *arguments, original=original: (asked.append(arguments), original(*arguments))[1]
    trainer.train_epoch()
    indices = [set(arguments[0].tolist()) for arguments in asked]
    assert len(indices) == 3
    assert sum(map(len, indices)) == len(set.union(*indices)) == 3
    assert len({arguments[2] for arguments in asked}) == 3


class Watching(Transform):
    """Learns from steps and keeps it to itself."""

    n_steps = 0

    def observe_step(self, *arguments):
        Watching.n_steps += 1


def test_statistics_that_nobody_can_bring_together_are_refused_on_workers(make_trainer):
    watching = {"use": f"{__name__}:Watching"}
    make_trainer(wrappers=[watching]).train_epoch()
    assert Watching.n_steps > 0
    with pytest.raises(RequestError, match="Watching keeps running statistics"):
        make_trainer(wrappers=[watching], workers={"use": "inline", "count": 2})


def test_all_members_of_an_update_are_measured_with_the_same_statistics(assemble, monkeypatch):
    from maze_wrappers.observation_normalization import ObservationNormalization

    running = {"use": "observation-normalization", "statistics": "running"}
    assembly = assemble(wrappers=[running])
    trainer = assembly.make_trainer(assembly.trainer_context())
    (transform,) = assembly.transforms
    observe, used = ObservationNormalization.observe_step, []

    def watched(self, *arguments):
        observe(self, *arguments)
        used.append(self.observation("0", {"observation": np.ones(4, np.float32)})["observation"].tolist())

    monkeypatch.setattr(ObservationNormalization, "observe_step", watched)
    for epoch in range(3):
        trainer.start_segment(epoch)
        before = transform.observation("0", {"observation": np.ones(4, np.float32)})["observation"].tolist()
        trainer.train_epoch()
        assert used == [before] * len(used)
        used.clear()
        assert transform.observation("0", {"observation": np.ones(4, np.float32)})["observation"].tolist() != before
    trainer.close()


@pytest.mark.parametrize("name", ["DoorAndKey", "Pair", "ChangingTeam", "Hierarchy"])
def test_structured_environments_are_trained(assemble, name):
    """Sub-steps in turn, agents that share a key, agents that come and go, and environments out of step."""
    assembly = assemble(env={"use": STRUCTURED + name}, vector={"n_envs": 3})
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()))


def test_all_policy_keys_move_and_steps_are_flat_steps(make_trainer):
    trainer = make_trainer(env={"use": STRUCTURED + "Hierarchy", "n_steps": 7}, trainer={"n_rollouts_per_update": 20})
    before = {name: tensor.clone() for name, tensor in trainer.model.policy_state_dict().items()}
    statistics = trainer.train_epoch()
    assert trainer.env_steps == 20 * 7
    assert statistics["BaseEnvEvents/episode_length/mean"] == 7
    after = trainer.model.policy_state_dict()
    assert all(not torch.equal(after[name], tensor) for name, tensor in before.items())


def test_every_policy_key_has_a_gradient_norm_of_its_own(make_trainer):
    structured = {"env": {"use": "maze_testing.structured_environments:Hierarchy"}, "model": {"use": "auto"}}
    statistics = make_trainer(**structured).train_epoch()
    own = [statistics[f"ESEvents/gradient_norm/{key}"] for key in ("manager", "worker")]
    assert np.linalg.norm(own) == pytest.approx(statistics["ESEvents/gradient_norm"], rel=1e-4)


def test_networks_of_single_agents_are_refused(make_trainer):
    with pytest.raises(RequestError, match="networks of their own"):
        make_trainer(env={"use": STRUCTURED + "Pair"}, model={"use": "auto", "separate_agent_nets": ["agent"]})


def test_options_of_the_other_optimizer_are_refused(kernel):
    for optimizer, wrong in (({"use": "sgd", "beta1": 0.5}, "beta1"), ({"use": "adam", "momentum": 0.5}, "momentum")):
        data = {
            "name": "x",
            "env": {"use": "gym", "id": "CartPole-v1"},
            "trainer": {"use": "es", "optimizer": optimizer},
        }
        with pytest.raises(MazeError, match=wrong):
            experiment_from_mapping(data, kernel=kernel)


def test_noise_that_would_vanish_is_refused(make_trainer):
    with pytest.raises(MazeError, match=r"noise_stddev' must be > 0.0: 0.1 to 0.0"):
        make_trainer(trainer={"noise_stddev": {"start": 0.1}})


def test_statistics_have_the_documented_tags(make_trainer):
    statistics = make_trainer().train_epoch()
    names = (
        "gradient_norm",
        "noise_stddev",
        "step_size",
        "update_norm",
        "weight_norm",
        "rank_difference",
        "pair_count",
    )
    assert {f"ESEvents/{name}" for name in names} <= set(statistics)
    assert {"Timing/rollout_seconds", "Timing/update_seconds", "Timing/env_steps_per_second"} <= set(statistics)
    assert all(np.isfinite(value) for value in statistics.values())


def test_pairs_beyond_the_batch_wait_for_the_next_one(make_trainer):
    """Rows without a member play nothing that counts."""
    trainer = make_trainer(vector={"n_envs": 4, "mode": "sequential"}, trainer={"deterministic": True})
    alone = make_trainer(vector={"n_envs": 1, "mode": "sequential"}, trainer={"deterministic": True})
    pairs = Pairs(noise_indices=np.arange(6), env_seeds=np.arange(6) + 100, policy_seed=1, noise_stddev=0.1)
    center = trainer._flat.data.numpy().copy()
    np.testing.assert_array_equal(
        trainer._population.play(center, pairs).returns, alone._population.play(center, pairs).returns
    )


def test_the_relay_plays_what_the_waves_play(make_trainer):
    """Handing environments on at once changes no episode; `max_steps` above every length forces waves."""
    tables = {"vector": {"n_envs": 3, "mode": "sequential"}}
    relay = make_trainer(**tables, trainer={"deterministic": True})
    waves = make_trainer(**tables, trainer={"deterministic": True, "max_steps": 10_000})
    center, pairs = relay._flat.data.numpy().copy(), relay._draw(4)
    assert relay._population._in_relay
    assert not waves._population._in_relay
    one, other = relay._population.play(center, pairs), waves._population.play(center, pairs)
    np.testing.assert_array_equal(one.returns, other.returns)
    np.testing.assert_array_equal(one.lengths, other.lengths)


def test_halves_together_play_what_halves_apart_play(make_trainer):
    """Where every row has a seed of its own; with pairs beyond the batch and rows without a member."""
    tables = {"mode": "sequential"}
    options = {"deterministic": True, "max_steps": 10_000}
    apart = make_trainer(vector={"n_envs": 5, **tables}, trainer=options)
    together = make_trainer(vector={"n_envs": 5, **tables}, trainer={**options, "halves_together": True})
    center, pairs = apart._flat.data.numpy().copy(), apart._draw(3)
    one, other = apart._population.play(center, pairs), together._population.play(center, pairs)
    np.testing.assert_array_equal(one.returns, other.returns)
    np.testing.assert_array_equal(one.lengths, other.lengths)


def test_native_halves_together_take_the_ticks_of_the_longest_episode(make_trainer):
    trainer = make_trainer(
        vector={"n_envs": 6}, trainer={"halves_together": True, "deterministic": True, "noise_stddev": 1.0}
    )
    population, loaded, ticks = trainer._population, [], []
    load, step = population._members.load, population._vector_env.step
    population._members.load = lambda weights: (loaded.append(weights), load(weights))[1]
    population._vector_env.step = lambda actions: (ticks.append(1), step(actions))[1]
    center, pairs = trainer._flat.data.numpy().copy(), trainer._draw(3)
    outcome = population.play(center, pairs)
    assert len(ticks) == outcome.lengths.max()
    (weights,) = loaded
    noise = population.noise.vectors(pairs.noise_indices)
    np.testing.assert_allclose(weights, center + np.concatenate([noise, -noise]), rtol=1e-6)


@pytest.mark.slow
def test_processes_play_what_one_process_plays(make_trainer):
    tables = {"trainer": {**TABLE, "deterministic": True}, "vector": {"n_envs": 2, "mode": "sequential"}}
    here = make_trainer(**tables)
    there = make_trainer(**tables, workers={"use": "subprocess", "count": 2})
    for trainer in (here, there):
        trainer.train_epoch()
    assert torch.equal(weights(here), weights(there))


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_episodes_are_played_again(make_trainer):
    import os
    import signal

    tables = {"trainer": {**TABLE, "deterministic": True}, "vector": {"n_envs": 2, "mode": "sequential"}}
    here = make_trainer(**tables)
    there = make_trainer(
        **tables, workers={"use": "subprocess", "count": 2, "max_restarts": 3, "backoff_seconds": 0.01}
    )
    for epoch in range(3):
        here.train_epoch()
        if epoch:
            os.kill(there._population._group.process_id(epoch - 1), signal.SIGKILL)
        there.train_epoch()
    assert torch.equal(weights(here), weights(there))


BATCHES = {
    "relay": {"vector": {"n_envs": 4, "mode": "sequential"}},
    "relay, rows without a member": {"vector": {"n_envs": 16, "mode": "sequential"}},
    "waves": {"vector": {"n_envs": 16, "mode": "native"}},
    "both halves in a wave": {"vector": {"n_envs": 16, "mode": "native"}, "trainer": {"halves_together": True}},
    "waves that are cut": {"vector": {"n_envs": 4, "mode": "sequential"}, "trainer": {"max_steps": 30}},
    "workers": {"vector": {"n_envs": 8, "mode": "sequential"}, "workers": {"use": "inline", "count": 2}},
}
SCALING = {"use": "reward-scaling", "scale": 0.5}


@pytest.mark.parametrize("batch", [*BATCHES, "around single environments"])
def test_event_statistics_are_those_of_the_episodes_that_count(assemble, batch):
    """The rewards before scaling are events of an episode: each that counts and has ended is there, and no other is."""
    single = [{"use": "step-skip", "n_steps": 1}] if batch == "around single environments" else []
    assembly = assemble(wrappers=[SCALING, *single], **BATCHES.get(batch, BATCHES["relay"]))
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    for _ in range(2):
        statistics = {**trainer.train_epoch(), **assembly.training_batches.drain_event_statistics()}
        for name in ("min",) if batch == "waves that are cut" else ("mean", "min", "max", "std"):
            scaled = statistics[f"BaseEnvEvents/reward/{name}"]
            assert statistics[f"BaseEnvEvents/raw_reward/{name}"] == pytest.approx(2 * scaled)
    trainer.close()
