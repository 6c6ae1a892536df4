import csv
import errno
import json
import os
import warnings

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from maze_kernel.errors import CheckpointError, MazeWarning, NonFiniteError, RequestError
from maze_runtime.run.directory import open_run
from maze_runtime.run.storage import Storage
from maze_runtime.training.checkpoint_store import CheckpointStore


def rows(run_dir, name):
    with open(run_dir / "statistics" / f"{name}.csv") as file:
        return [(int(row["epoch"]), row["tag"], row["value"]) for row in csv.DictReader(file)]


def final_files(run_dir, epoch):
    folder = run_dir / "checkpoints" / f"epoch-{epoch:06d}"
    state = json.loads((folder / "state.json").read_text())
    state["state"]["loop"]["wall_seconds"] = 0
    return (
        (folder / "model.safetensors").read_bytes(),
        (folder / "trainer.safetensors").read_bytes(),
        state,
    )


def test_a_run_evaluates_and_saves_its_last_epoch(toy):
    result = toy.train("a", "trainer.n_epochs=5", "evaluation.every_epochs=3")
    assert result.outcome.status == "done"
    assert result.epochs == 5
    assert result.env_steps == 5 * 7 * 3
    evaluated = {epoch for epoch, tag, _ in rows(result.run_dir, "eval") if tag == "BaseEnvEvents/reward/mean"}
    assert evaluated == {3, 5}
    store = CheckpointStore(result.run_dir)
    assert store.pointed("last") == 5
    saved = store.load(5)
    for name, tensor in result.model.state_dict().items():
        assert torch.equal(saved.model[name], tensor)


def test_run_directory_tells_where_the_run_came_from(toy):
    result = toy.train("a", "trainer.n_epochs=1")
    run = open_run(result.run_dir)
    assert run.overrides == ("trainer.n_epochs=1",)
    assert run.resolved["trainer"]["n_epochs"] == 1
    assert run.record.seeds == {"run": 3}
    assert run.record.packages["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert any(plugin.name == "toy_plugin" for plugin in run.record.plugins)
    assert (result.run_dir / "log.txt").read_text().strip().endswith("all 1 epochs done")


def test_the_best_weights_do_not_follow_later_training(toy):
    result = toy.train("a", "trainer.n_epochs=7", "trainer.worse_from_epoch=4", "checkpoint.every_epochs=4")
    assert result.outcome.best_epoch in (2, 3)
    best = CheckpointStore(result.run_dir).load_named("best")
    assert best.epoch == result.outcome.best_epoch
    assert not torch.equal(best.model["weight"], result.model.weight)
    assert best.model["weight"][0, 1] > 5


def test_patience_stops_early_and_says_so(toy):
    result = toy.train("a", "trainer.n_epochs=50", "trainer.worse_from_epoch=3", "trainer.patience=3")
    assert result.outcome.status == "stopped early"
    assert result.epochs == result.outcome.best_epoch + 3


def test_environment_steps_are_a_budget(toy):
    assert toy.train("a", "trainer.n_epochs=0", "trainer.max_env_steps=50").epochs == 3


def test_wall_time_is_a_budget(toy):
    result = toy.train("a", "trainer.n_epochs=0", max_seconds=0.2)
    assert result.outcome.reason == "0.2 seconds used"


@pytest.mark.parametrize(("metric", "near"), [("BaseEnvEvents/reward/meen", "BaseEnvEvents/reward/mean")])
def test_a_misspelt_metric_is_refused_before_training(toy, metric, near):
    with pytest.raises(RequestError) as caught:
        toy.train("a", f'evaluation.metric="{metric}"')
    assert near in caught.value.nearest
    assert not (toy.folder / "a" / "checkpoints").exists()


def test_a_misspelt_training_metric_is_refused_after_one_epoch(toy):
    with pytest.raises(RequestError) as caught:
        toy.train("a", 'evaluation.metric="train_ToyEvents/epok"')
    assert "train_ToyEvents/epoch" in caught.value.nearest


def test_a_training_statistic_may_select_the_best(toy):
    result = toy.train("a", "trainer.n_epochs=4", 'evaluation.metric="train_ToyEvents/epoch"')
    assert (result.outcome.best_epoch, result.best_metric) == (4, 4.0)


def test_a_minus_before_the_metric_minimises_it(toy):
    result = toy.train("a", "trainer.n_epochs=4", 'evaluation.metric="-train_ToyEvents/epoch"')
    assert (result.outcome.best_epoch, result.best_metric) == (1, 1.0)
    assert CheckpointStore(result.run_dir).load_named("best").epoch == 1


def test_a_trainer_may_say_what_selects_its_best_model(toy, toy_module, monkeypatch):
    monkeypatch.setattr(toy_module.ToyTrainer, "metric", "-train_ToyEvents/epoch", raising=False)
    assert toy.train("a", "trainer.n_epochs=3").outcome.best_epoch == 1
    named = toy.train("b", "trainer.n_epochs=3", 'evaluation.metric="train_ToyEvents/epoch"')
    assert named.outcome.best_epoch == 3


def test_a_training_statistic_selects_between_evaluations_too(toy):
    changes = ["trainer.n_epochs=5", "evaluation.every_epochs=5", 'evaluation.metric="-train_ToyEvents/epoch"']
    assert toy.train("a", *changes).outcome.best_epoch == 1


def test_without_evaluation_the_training_reward_selects(toy):
    result = toy.train("a", "trainer.n_epochs=4", "evaluation.n_episodes=0")
    values = {epoch: float(value) for epoch, tag, value in rows(result.run_dir, "train") if tag.endswith("reward/mean")}
    assert result.best_metric == max(values.values())


def test_evaluation_leaves_the_network_in_training_mode(toy):
    assert toy.train("a", "trainer.n_epochs=1").model.training


def test_same_seed_same_run_and_other_seed_another(toy):
    first, second = (toy.train(name, "trainer.n_epochs=4").run_dir for name in "ab")
    assert final_files(first, 4) == final_files(second, 4)
    other = toy.train("c", "trainer.n_epochs=4", "seed=4").run_dir
    assert final_files(other, 4)[0] != final_files(first, 4)[0]


@pytest.mark.parametrize("stop_after", [2, 4, 6])
def test_a_resumed_run_equals_the_uninterrupted_one(toy, stop_after):
    whole = toy.train("whole", "trainer.n_epochs=8").run_dir
    toy.train("part", f"trainer.n_epochs={stop_after}")
    np.random.seed(99)
    torch.manual_seed(99)
    part = toy.resume("part", "trainer.n_epochs=8").run_dir
    assert final_files(part, 8) == final_files(whole, 8)
    assert rows(part, "train") == rows(whole, "train")
    assert rows(part, "eval") == rows(whole, "eval")
    assert CheckpointStore(part).pointed("best") == CheckpointStore(whole).pointed("best")


def test_totals_count_the_whole_run_also_after_a_resume(toy):
    toy.train("a", "trainer.n_epochs=2")
    result = toy.resume("a", "trainer.n_epochs=5")
    written = rows(result.run_dir, "train")
    totals = {
        name: [float(value) for _, tag, value in written if tag == f"BaseEnvEvents/{name}"]
        for name in ("episode_count", "total_episode_count", "total_step_count")
    }
    assert len(totals["total_episode_count"]) == 5
    assert totals["total_episode_count"] == np.cumsum(totals["episode_count"]).tolist()
    assert totals["total_episode_count"][-1] > totals["episode_count"][-1]
    assert totals["total_step_count"][-1] == result.env_steps


def test_resuming_a_finished_run_does_nothing(toy):
    toy.train("a", "trainer.n_epochs=4")
    before = final_files(toy.folder / "a", 4)
    assert toy.resume("a").outcome.reason == "all 4 epochs done"
    assert final_files(toy.folder / "a", 4) == before


def test_resume_refuses_to_train_something_else(toy):
    toy.train("a", "trainer.n_epochs=2")
    with pytest.raises(RequestError, match=r"vector\.n_envs"):
        toy.resume("a", "vector.n_envs=4")


@pytest.mark.slow
def test_a_run_may_go_on_in_another_vector_mode(toy):
    whole = toy.train("whole", "trainer.n_epochs=4").run_dir
    toy.train("a", "trainer.n_epochs=2", tables={"vector": {"n_envs": 3, "mode": "subprocess", "n_processes": 3}})
    toy.resume("a", "trainer.n_epochs=4", 'vector.mode="sequential"')
    assert rows(toy.folder / "a", "train") == rows(whole, "train")


def test_resume_falls_back_to_the_newest_whole_checkpoint_and_says_so(toy):
    whole = toy.train("whole", "trainer.n_epochs=8").run_dir
    run_dir = toy.train("a", "trainer.n_epochs=6").run_dir
    damaged = run_dir / "checkpoints" / "epoch-000006" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    toy.resume("a", "trainer.n_epochs=8")
    assert "skipped checkpoint epoch-000006" in (run_dir / "log.txt").read_text()
    assert "resumed from epoch 4" in (run_dir / "log.txt").read_text()
    assert final_files(run_dir, 8) == final_files(whole, 8)


def test_nan_weights_stop_the_run_and_are_never_saved(toy):
    with pytest.raises(NonFiniteError, match="weight"):
        toy.train("a", "trainer.nan_at_epoch=4")
    assert CheckpointStore(toy.folder / "a").epochs()[-1] == 2


def test_the_batch_that_was_not_finite_is_kept(toy):
    with pytest.raises(NonFiniteError) as caught:
        toy.train("a", "trainer.refuse_at_epoch=2")
    path = toy.folder / "a" / "non-finite-batch.safetensors"
    assert np.isnan(safetensors.numpy.load_file(path)["observation"]).all()
    assert str(path) in caught.value.help


@pytest.mark.parametrize(
    ("use", "said"), [("broken-logger", "no space left for statistics"), ("leaving-logger", "SystemExit: enough of it")]
)
def test_a_broken_logger_cannot_stop_a_run(toy, use, said):
    tables = {"loggers": [{"use": use}, {"use": "csv"}]}
    with pytest.warns(MazeWarning, match=r"records of the run are incomplete: \w+Logger failed; see .*log.txt") as told:
        result = toy.train("a", "trainer.n_epochs=3", tables=tables)
    assert len(told) == 1
    log = (result.run_dir / "log.txt").read_text()
    assert log.count("Logger failed in write") == 1
    assert said in log
    assert {epoch for epoch, *_ in rows(result.run_dir, "train")} == {1, 2, 3}


class Messages:
    """Keeps messages, and warns when it is closed."""

    def __init__(self):
        self.texts = []

    def write(self, record):
        if record.epoch == 2:
            warnings.warn("a worker died", MazeWarning, stacklevel=2)

    def message(self, text):
        self.texts.append(text)

    def close(self, outcome):
        warnings.warn("it was the last one", MazeWarning, stacklevel=2)


def test_what_is_warned_of_while_a_run_trains_is_in_its_log_and_a_message(toy):
    logger, shown = Messages(), warnings.showwarning
    with pytest.warns(MazeWarning) as told:
        result = toy.train("a", "trainer.n_epochs=3", extra_loggers=[logger])
    assert [str(one.message) for one in told] == ["a worker died", "it was the last one"]
    assert logger.texts.count("warning: a worker died") == 1
    lines = (result.run_dir / "log.txt").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines][-2:] == ["warning: a worker died", "done: all 3 epochs done"]
    assert warnings.showwarning is shown


def test_a_logger_whose_files_the_disk_refuses_cannot_stop_a_resume(toy, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run_dir = toy.train("a", "trainer.n_epochs=2").run_dir
    with monkeypatch.context() as full:
        full.setattr("maze_csv.logger._drop_later_rows", refuse)
        assert toy.resume("a", "trainer.n_epochs=4").epochs == 4
    log = (run_dir / "log.txt").read_text()
    assert log.count("logger csv could not be built and is left out: OSError: [Errno 28] No space left") == 1
    assert "logger failures: csv 1" in log
    assert {epoch for epoch, *_ in rows(run_dir, "train")} == {1, 2}


def test_a_resume_that_cannot_be_noted_is_refused_in_words(toy, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run_dir = toy.train("a", "trainer.n_epochs=2").run_dir
    record = (run_dir / "run.json").read_bytes()
    with monkeypatch.context() as full:
        full.setattr(Storage, "write_bytes", refuse)
        with pytest.raises(CheckpointError, match=r"run\.json could not be written.*No space left") as caught:
            toy.resume("a", "trainer.n_epochs=4")
    assert "free some disk space" in caught.value.help
    assert (run_dir / "run.json").read_bytes() == record
    assert toy.resume("a", "trainer.n_epochs=4").epochs == 4


def test_a_logger_that_cannot_write_is_refused(toy):
    with pytest.raises(RequestError, match="logger 'mute-logger' has no method `write`"):
        toy.train("a", tables={"loggers": [{"use": "mute-logger"}]})


def test_an_occupied_directory_is_refused(toy):
    (toy.folder / "a").mkdir()
    (toy.folder / "a" / "thesis.tex").write_text("precious")
    with pytest.raises(RequestError, match="not empty"):
        toy.train("a")


def test_a_run_that_is_out_of_patience_ends_at_once_when_it_is_resumed_until_it_has_more(toy):
    changes = ("trainer.n_epochs=9", "trainer.patience=2", 'evaluation.metric="-train_ToyEvents/epoch"')
    first = toy.train("a", *changes)  # the first epoch stays the best one
    assert (first.outcome.status, first.epochs) == ("stopped early", 3)
    for _ in range(2):
        again = toy.resume("a")
        assert (again.outcome, again.epochs) == (first.outcome, 3)
    log = (first.run_dir / "log.txt").read_text()
    way_on = (
        "to go on, raise trainer.patience, which is 2 (0 is no limit), and resume it again, or from Python call train"
    )
    assert f"the run had stopped early: no better evaluation in 2; {way_on}" in log
    assert toy.resume("a", "trainer.patience=3").epochs == 4
    assert toy.resume("a", "trainer.patience=0").outcome.status == "done"


def test_initialize_from_takes_what_fits_and_names_the_rest(toy):
    first = toy.train("a", "trainer.n_epochs=2")
    tables = {"model": {"use": "toy-model", "padding": 9}, "initialize_from": str(first.run_dir)}
    second = toy.train("b", "trainer.n_epochs=1", tables=tables)
    log = (second.run_dir / "log.txt").read_text()
    assert f"initialised from epoch {first.outcome.best_epoch} of {first.run_dir}" in log
    assert "policy: 1 of 2 tensors taken over; left as they were: padding" in log


def test_evaluation_in_subprocesses_gives_the_same_numbers(toy):
    inline = toy.train("a", "trainer.n_epochs=2").run_dir
    tables = {"workers": {"use": "toy-subprocess", "count": 2}}
    spread = toy.train("b", "trainer.n_epochs=2", tables=tables).run_dir
    assert rows(inline, "eval") == rows(spread, "eval")
