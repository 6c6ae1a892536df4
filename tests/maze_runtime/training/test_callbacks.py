"""Callbacks: when they are called, what they may do, and that a resumed run goes on with them."""

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.errors import ComponentError, ExperimentError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.training.callbacks import Callback
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.schedules import Schedule
from maze_runtime.training.train import train
from maze_testing.callbacks import check_callback

PPO = {
    "name": "small",
    "env": {"use": "gym", "id": "CartPole-v1"},
    "vector": {"n_envs": 2},
    "trainer": {"use": "ppo", "n_epochs": 4, "epoch_length": 1, "n_rollout_steps": 8, "batch_size": 8, "lr": 2.5e-4},
    "evaluation": {"n_episodes": 1},
    "checkpoint": {"every_epochs": 2},
    "loggers": [{"use": "csv"}],
}


def small(**tables):
    return experiment_from_mapping({**PPO, **tables}, kernel=Kernel.installed())


def run(folder, *callbacks, **tables):
    loaded = small(**tables)
    return train(loaded, loaded.kernel, run_dir=folder, callbacks=callbacks, verbosity=-1)


def resume(folder, *callbacks, n_epochs):
    """`callbacks` that are texts are overrides."""
    overrides = [one for one in callbacks if isinstance(one, str)]
    callbacks = [one for one in callbacks if not isinstance(one, str)]
    loaded = stored_experiment(folder, overrides=[f"trainer.n_epochs={n_epochs}", *overrides])
    return train(loaded, loaded.kernel, resume=folder, callbacks=callbacks, verbosity=-1)


def learning_rates(folder):
    lines = (folder / "statistics" / "train.csv").read_text().splitlines()
    return [float(line.split(",")[-1]) for line in lines if "ActorCriticEvents/learning_rate" in line]


class Noting(Callback):
    """Notes every call, and remembers how many there were in all."""

    def __init__(self):
        self.calls = []
        self.n_calls = 0

    def _note(self, run, what):
        self.calls.append((run.epoch, what))
        self.n_calls += 1

    def on_evaluation(self, run):
        self._note(run, "evaluation")

    def on_epoch(self, run):
        self._note(run, "epoch")

    def on_checkpoint(self, run, folder):
        self._note(run, folder.name)

    def state_dict(self):
        return {"n_calls": self.n_calls, "array": np.arange(self.n_calls)}

    def load_state_dict(self, state):
        self.n_calls = state["n_calls"]
        np.testing.assert_array_equal(state["array"], np.arange(self.n_calls))


# When they are called, and what they see


def test_they_are_called_after_evaluations_epochs_and_checkpoints(tmp_path):
    noting = Noting()
    run(tmp_path / "a", noting, evaluation={"n_episodes": 1, "every_epochs": 3})
    assert noting.calls == [
        (1, "epoch"),
        (2, "epoch"),
        (2, "epoch-000002"),
        (3, "evaluation"),
        (3, "epoch"),
        (4, "evaluation"),
        (4, "epoch"),
        (4, "epoch-000004"),
    ]


def test_they_see_what_loggers_see(tmp_path):
    seen = []

    def look(run):
        tag = "BaseEnvEvents/reward/mean"
        seen.append((run.epoch, run.env_steps, run.value(tag), run.best_metric))
        assert run.value("train_ActorCriticEvents/learning_rate") == 0.00025
        assert run.record.evaluation.get(tag) == run.value(tag)
        assert run.experiment.name == "small"
        assert run.run_dir == tmp_path / "a"

    result = run(tmp_path / "a", look, evaluation={"n_episodes": 1, "every_epochs": 2})
    assert [epoch for epoch, *_ in seen] == [1, 2, 3, 4]
    assert seen[-1][1] == result.env_steps > seen[0][1]
    assert seen[0][2] is None
    assert seen[2][2] is None
    assert seen[-1][3] == result.best_metric == max(seen[1][2], seen[3][2])


def test_a_run_with_callbacks_that_only_look_is_the_same_run(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b", lambda run: None)
    for name in ("model.safetensors", "trainer.safetensors"):
        one, other = (tmp_path / folder / "checkpoints" / "epoch-000004" / name for folder in "ab")
        assert one.read_bytes() == other.read_bytes()


# What they may do


def test_one_stops_the_run_with_a_reason_and_the_epoch_is_saved(tmp_path):
    class Impatient:
        def on_epoch(self, run):
            if run.epoch == 3:
                run.stop("three are enough")

    result = run(tmp_path / "a", Impatient())
    assert (result.outcome.status, result.epochs) == ("stopped early", 3)
    assert result.outcome.reason.endswith("Impatient: three are enough")
    assert CheckpointStore(tmp_path / "a").pointed("last") == 3
    assert resume(tmp_path / "a", n_epochs=4).epochs == 4


def test_one_may_stop_the_run_when_a_checkpoint_was_written(tmp_path):
    class Once:
        def on_checkpoint(self, run, folder):
            run.stop(folder.name)

    result = run(tmp_path / "a", Once())
    assert (result.outcome.status, result.epochs) == ("stopped early", 2)
    assert result.outcome.reason.endswith("epoch-000002")


def test_nothing_that_is_trained_changes_when_a_checkpoint_was_written(tmp_path):
    class Halving:
        def on_checkpoint(self, run, folder):
            run.set_option("lr", run.option("lr") / 2)

    with pytest.raises(ComponentError, match="Halving failed in on_checkpoint: lr cannot change") as caught:
        run(tmp_path / "a", Halving())
    assert "on_epoch" in caught.value.help


def test_one_changes_the_learning_rate_and_a_resumed_run_keeps_it(tmp_path):
    def halve(run):
        if run.epoch == 2:
            run.set_option("lr", run.option("lr") / 2)

    trainer = {**PPO["trainer"], "lr": 0.01}
    run(tmp_path / "a", halve, trainer=trainer)
    assert learning_rates(tmp_path / "a") == [0.01, 0.01, 0.005, 0.005]
    resume(tmp_path / "a", n_epochs=5)
    assert learning_rates(tmp_path / "a")[4:] == [0.005]


def test_a_new_schedule_runs_over_the_whole_budget(tmp_path):
    def decay(run):
        if run.epoch == 2:
            run.set_option("lr", {"start": 0.04, "end": 0.0})

    run(tmp_path / "a", decay, trainer={**PPO["trainer"], "lr": 0.01})
    assert learning_rates(tmp_path / "a") == [0.01, 0.01, 0.02, 0.01]


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [("lrr", 0.1, "no schedule called 'lrr'"), ("n_epochs", 3, "no schedule"), ("lr", -1.0, "refuses lr")],
)
def test_what_cannot_be_changed_is_refused(tmp_path, name, value, named):
    with pytest.raises(ComponentError, match=named):
        run(tmp_path / "a", lambda run: run.set_option(name, value))


def test_the_page_names_every_schedule_that_can_change():
    from maze_runtime.training.run_in_progress import schedules_of

    page = (Path(__file__).parents[3] / "docs/how-to/callbacks.md").read_text()
    table = page.partition("| trainer | schedules that can change |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {}
    for row in table.splitlines():
        trainers, schedules = (re.findall(r"`(\w+)`", cell) for cell in row.strip("|").split("|"))
        named |= {trainer: set(schedules) for trainer in trainers}
    kernel = Kernel.installed()
    assert {"ppo", "dqn", "es"} <= set(named)
    for trainer, schedules in named.items():
        options = kernel.catalog.options_class(kernel.catalog.find("trainer", trainer))
        assert set(schedules_of(options.__new__(options))) == schedules, trainer


# Failures


class Failing:
    def on_epoch(self, run):
        raise ValueError("the plant is on fire")


def test_one_that_raises_ends_the_run_with_its_name(tmp_path):
    with pytest.raises(ComponentError, match=r"callback Failing failed in on_epoch: ValueError: the plant is on fire"):
        run(tmp_path / "a", Failing())
    assert "the plant is on fire" in (tmp_path / "a" / "log.txt").read_text()


def test_a_state_that_no_checkpoint_holds_is_refused(tmp_path):
    class Odd(Callback):
        def state_dict(self):
            return {"thing": object()}

    with pytest.raises(ComponentError, match=r"Odd failed in state_dict: .*a checkpoint cannot hold"):
        run(tmp_path / "a", Odd())


@pytest.mark.parametrize("given", [Failing, 3, object()])
def test_what_is_no_callback_is_refused_and_nothing_is_left_behind(tmp_path, given):
    with pytest.raises(RequestError, match="callbacks= was given"):
        run(tmp_path / "a", given)
    assert not (tmp_path / "a").exists()


# Runs that go on


def test_states_are_saved_and_restored(tmp_path):
    first, second = Noting(), Noting()
    run(tmp_path / "a", first)
    resume(tmp_path / "a", second, n_epochs=6)
    # The checkpoint of epoch 4 was written before its own call.
    assert second.n_calls == first.n_calls - 1 + len(second.calls)
    assert [epoch for epoch, what in second.calls if what == "epoch"] == [5, 6]


def test_two_of_a_kind_keep_their_states_apart(tmp_path):
    ones = Noting(), Noting()
    ones[1].n_calls = 100
    run(tmp_path / "a", *ones)
    again = Noting(), Noting()
    resume(tmp_path / "a", *again, n_epochs=5)
    assert again[1].n_calls - again[0].n_calls == 100


def test_one_that_is_not_given_any_more_is_told(tmp_path):
    run(tmp_path / "a", Noting())
    resume(tmp_path / "a", n_epochs=5)
    assert "callback Noting was saved with the run and is not given any more" in (tmp_path / "a/log.txt").read_text()


def test_checkpoints_without_callbacks_say_nothing_of_any(tmp_path):
    run(tmp_path / "a")
    state = json.loads((tmp_path / "a/checkpoints/epoch-000004/state.json").read_text())
    assert sorted(state["state"]) == ["activations", "distributions", "loop", "trainer", "transforms"]


# Components


def test_the_experiment_selects_callbacks(tmp_path):
    callbacks = [{"use": "stop-at", "value": 1.0, "times": 3}]
    result = run(tmp_path / "a", callbacks=callbacks)
    assert (result.outcome.status, result.epochs) == ("stopped early", 3)
    assert result.outcome.reason.startswith("stop-at: BaseEnvEvents/reward/mean is ")


def test_a_run_that_a_callback_stopped_goes_on_once_the_callback_is_another_or_none(tmp_path):
    stop = {"use": "stop-at", "value": 1.0, "times": 3}
    run(tmp_path / "a", callbacks=[stop])
    saved = (tmp_path / "a/checkpoints/epoch-000003/state.json").read_bytes()
    again = resume(tmp_path / "a", n_epochs=9)
    assert (again.outcome.status, again.epochs) == ("stopped early", 3)
    assert (tmp_path / "a/checkpoints/epoch-000003/state.json").read_bytes() == saved
    log = (tmp_path / "a/log.txt").read_text()
    assert "the run had stopped early: stop-at: BaseEnvEvents/reward/mean is " in log
    assert "; to go on, change that callback or leave it out, and resume it again" in log
    # The count goes on where it was.
    other = 'callbacks=[{use = "stop-at", value = 1.0, times = 5}]'
    assert resume(tmp_path / "a", other, n_epochs=9).epochs == 5
    assert resume(tmp_path / "a", n_epochs=9).epochs == 5
    assert resume(tmp_path / "a", "callbacks=[]", n_epochs=6).epochs == 6


class StopsWhenSaved:
    """Of an experiment that imports it by path."""

    def __init__(self, _context):
        self.folders = []

    def on_checkpoint(self, run, folder):
        self.folders.append(folder)
        run.stop("it is saved")


def test_one_that_stopped_a_run_when_it_was_saved_does_so_for_a_resumed_one_too(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "own_callbacks", sys.modules[__name__])
    loaded = small(callbacks=[{"use": "own_callbacks:StopsWhenSaved"}])
    assert train(loaded, loaded.kernel, run_dir=tmp_path / "a", verbosity=-1).epochs == 2
    again = train(loaded, loaded.kernel, resume=tmp_path / "a", verbosity=-1)
    assert (again.outcome.status, again.epochs) == ("stopped early", 2)


def test_it_stops_at_any_statistic_in_either_direction(tmp_path):
    fewer = {"use": "stop-at", "value": 1e9, "metric": "-train_ActorCriticEvents/policy_loss"}
    assert run(tmp_path / "a", fewer).epochs == 1
    assert run(tmp_path / "b", {**fewer, "metric": "train_ActorCriticEvents/policy_loss"}).epochs == 4


def test_a_statistic_that_there_is_not_is_told_with_the_nearest(tmp_path):
    with pytest.raises(ComponentError, match=r"stop-at failed in on_epoch: no statistic is called") as caught:
        run(tmp_path / "a", {"use": "stop-at", "value": 1.0, "metric": "BaseEnvEvents/rewards/mean"})
    assert "BaseEnvEvents/reward/mean" in caught.value.nearest


def test_a_misspelt_option_is_found_before_the_run():
    with pytest.raises(ExperimentError, match="tims"):
        small(callbacks=[{"use": "stop-at", "value": 1.0, "tims": 2}])


@pytest.mark.parametrize("tag", ["train_BaseEnvEvents/reward/mean", "-train_BaseEnvEvents/episode_length/median"])
def test_a_statistic_of_training_episodes_waits_until_one_ends(tmp_path, tag):
    """None does in the first epoch: CartPole takes more than eight steps to fall."""
    evaluation, stop = {"n_episodes": 1, "metric": tag}, {"use": "stop-at", "value": -1e9, "metric": tag.lstrip("-")}
    tables = {"evaluation": evaluation, "checkpoint": {"every_epochs": 1}}
    assert run(tmp_path / "a", {**stop, "value": 1e9}, "reduce-on-plateau", **tables).best_metric is None
    tables["checkpoint"] = {"every_epochs": 100}
    result = run(tmp_path / "b", {**stop, "times": 2}, trainer={**PPO["trainer"], "n_epochs": 12}, **tables)
    assert result.best_metric > 8
    assert (result.outcome.status, result.epochs > 1) == ("stopped early", True)


def test_a_resumed_run_knows_the_statistics_that_it_has_had(tmp_path):
    tables = {"evaluation": {"n_episodes": 1, "metric": "train_BaseEnvEvents/reward/mean"}}
    run(tmp_path / "a", trainer={**PPO["trainer"], "n_epochs": 12}, checkpoint={"every_epochs": 12}, **tables)
    loop = CheckpointStore(tmp_path / "a").load(12).loop
    assert {"BaseEnvEvents/reward/mean", "train_BaseEnvEvents/reward/mean"} <= set(loop.known_statistics)
    assert resume(tmp_path / "a", n_epochs=13).epochs == 13


class Judged:
    """A run whose evaluations get better in some epochs only."""

    def __init__(self, value):
        self.stale_evaluations, self.lr, self.lines = 0, value, []

    def option(self, name):
        return self.lr

    def set_option(self, name, value):
        self.lr = value

    def message(self, text):
        self.lines.append(text)


def test_the_learning_rate_is_lowered_on_each_plateau():
    from maze_runtime.training.callback_options import ReduceOnPlateauOptions
    from maze_runtime.training.reduce_on_plateau import ReduceOnPlateau

    options = ReduceOnPlateauOptions(factor=0.1, patience=2, minimum=0.005)
    callback, seen = ReduceOnPlateau(None, options), []
    judged = Judged(1.0)
    for stale in (0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3):
        judged.stale_evaluations = stale
        callback.on_epoch(judged)
        seen.append(round(judged.lr, 9))
    assert seen == [1.0, 1.0, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.005, 0.005]
    assert len(judged.lines) == 3
    judged = Judged(Schedule(start=1.0, end=0.001))
    judged.stale_evaluations = 2
    ReduceOnPlateau(None, options).on_epoch(judged)
    assert judged.lr == Schedule(start=0.1, end=0.001)


IMPALA = {"use": "impala", "deterministic": True, "num_actors": 2, "actors_batch_size": 2}


@pytest.mark.parametrize("trainer", [{"use": "ppo", "batch_size": 8}, {"use": "a2c"}, IMPALA])
def test_evaluations_of_a_policy_that_is_held_use_up_no_patience(tmp_path, trainer):
    lengths = {"n_epochs": 9, "epoch_length": 1, "n_rollout_steps": 8, "lr": 1e-3}
    trainer = {**trainer, **lengths, "patience": 2, "critic_burn_in_epochs": 3}
    result = run(
        tmp_path / "a",
        trainer=trainer,
        evaluation={"n_episodes": 1, "metric": "-train_BaseEnvEvents/total_step_count"},  # is best in epoch 1
        callbacks=[{"use": "reduce-on-plateau", "patience": 1}],
    )
    assert (result.outcome.reason, result.epochs) == ("no better evaluation in 2", 5)
    assert (tmp_path / "a" / "log.txt").read_text().count("lr is lowered") == 2


@pytest.mark.parametrize(
    "table",
    [
        {"use": "stop-at", "value": 4.0},
        {"use": "stop-at", "value": 2.0, "times": 3},
        {"use": "stop-at", "value": 0.3, "metric": "-train_ActorCriticEvents/policy_loss"},
        {"use": "stop-at", "value": 1e9},
        {"use": "reduce-on-plateau", "patience": 1},
        {"use": "reduce-on-plateau", "patience": 2, "option": "noise_stddev", "factor": 0.1, "minimum": 0.05},
    ],
)
def test_the_callbacks_that_come_with_maze_keep_their_contract(table, tmp_path, kernel):
    chosen = select(kernel, "callback", table)
    check_callback(lambda context: kernel.catalog.build(chosen, context), tmp_path / "run")


def test_the_learning_rate_of_a_run_is_lowered(tmp_path):
    worse = {"use": "reduce-on-plateau", "patience": 1, "factor": 0.5}
    evaluation = {"n_episodes": 1, "metric": "-train_BaseEnvEvents/episode_count"}
    run(tmp_path / "a", worse, trainer={**PPO["trainer"], "lr": 0.01}, evaluation=evaluation)
    rates = learning_rates(tmp_path / "a")
    assert rates[-1] < 0.01
    assert all(later in (earlier, earlier / 2) for earlier, later in itertools.pairwise(rates))
