"""A run that a signal stops, between two updates or between two epochs, goes on as if nothing had happened."""

import csv
import json
import os
import signal

import pytest
import torch

from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext
from maze_runtime.training import epoch_beginning
from maze_runtime.training.checkpoint_store import CheckpointStore

N_EPOCHS = 7


class InterruptsAfter:
    """A logger that sends Ctrl-C when it gets an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def write(self, record):
        if record.epoch == self.epoch:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interrupt_within(toy_module, monkeypatch):
    """`interrupt_within(epoch)`: Ctrl-C during an update of that epoch of the toy trainer, the next time it comes."""
    update = toy_module.ToyTrainer._update

    def install(epoch):
        def interrupted(self, total):
            update(self, total)
            if self.epoch == epoch:
                monkeypatch.setattr(toy_module.ToyTrainer, "_update", update)
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(toy_module.ToyTrainer, "_update", interrupted)

    return install


def everything(run_dir):
    """Last checkpoint, learning curves and which epoch is the best one."""
    folder = run_dir / "checkpoints" / f"epoch-{N_EPOCHS:06d}"
    state = json.loads((folder / "state.json").read_text())
    state["state"]["loop"]["wall_seconds"] = 0
    store = CheckpointStore(run_dir)
    return {
        "weights": [(folder / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")],
        "state": state,
        "train": rows(run_dir, "train"),
        "eval": rows(run_dir, "eval"),
        "best": store.pointed("best"),
    }


def rows(run_dir, name):
    with open(run_dir / "statistics" / f"{name}.csv") as file:
        return [(row["epoch"], row["tag"], row["env_steps"], row["value"]) for row in csv.DictReader(file)]


def changes(*more, every_epochs=1):
    return (f"trainer.n_epochs={N_EPOCHS}", f"checkpoint.every_epochs={every_epochs}", *more)


@pytest.mark.parametrize("deterministic", ["true", "false"])
@pytest.mark.parametrize("epoch", [1, 2, 3, 5])
def test_an_interruption_changes_nothing_that_is_evaluated(toy, epoch, deterministic):
    sparse = changes("evaluation.every_epochs=3", f"evaluation.deterministic={deterministic}")
    whole = toy.train("whole", *sparse).run_dir
    part = toy.train("part", *sparse, extra_loggers=[InterruptsAfter(epoch)])
    assert part.outcome.status == "interrupted"
    assert part.epochs == epoch
    toy.resume("part")
    assert everything(part.run_dir) == everything(whole)


@pytest.mark.parametrize("epoch", [2, 4, 7])
def test_an_epoch_that_is_cut_short_begins_again(toy, epoch, interrupt_within):
    whole = toy.train("whole", *changes()).run_dir
    interrupt_within(epoch)
    part = toy.train("part", *changes())
    assert part.outcome.status == "interrupted"
    assert part.epochs == epoch - 1
    saved = CheckpointStore(part.run_dir).load(epoch - 1)
    assert torch.equal(part.model.state_dict()["weight"], saved.model["weight"])
    assert f"epoch {epoch} was cut short" in (part.run_dir / "log.txt").read_text()
    toy.resume("part")
    assert everything(part.run_dir) == everything(whole)


def test_what_was_trained_since_the_last_checkpoint_is_kept(toy, interrupt_within):
    whole = toy.train("whole", "trainer.n_epochs=4", "checkpoint.every_epochs=100").run_dir
    interrupt_within(5)
    part = toy.train("part", *changes(every_epochs=100))
    assert (part.outcome.status, part.epochs, part.env_steps) == ("interrupted", 4, 4 * 7 * 3)
    names = [f"checkpoints/epoch-000004/{name}.safetensors" for name in ("model", "trainer")]
    for name in names:
        assert (part.run_dir / name).read_bytes() == (whole / name).read_bytes()


def test_a_first_epoch_that_is_cut_short_leaves_a_run_that_can_go_on(toy, interrupt_within):
    whole = toy.train("whole", *changes()).run_dir
    interrupt_within(1)
    part = toy.train("part", *changes())
    assert (part.outcome.status, part.epochs, part.env_steps) == ("interrupted", 0, 0)
    assert CheckpointStore(part.run_dir).epochs() == []
    toy.resume("part")
    assert everything(part.run_dir) == everything(whole)


def test_an_epoch_whose_beginning_is_too_large_to_keep_is_finished(toy, interrupt_within, monkeypatch):
    monkeypatch.setattr(epoch_beginning, "LARGEST_KEPT_BYTES", 10)
    interrupt_within(4)
    part = toy.train("part", *changes(every_epochs=100))
    assert (part.outcome.status, part.epochs) == ("interrupted", 4)
    assert CheckpointStore(part.run_dir).pointed("last") == 4


def test_the_first_ctrl_c_is_answered_at_once(toy, interrupt_within, capfd):
    interrupt_within(3)
    toy.train("part", *changes())
    assert "SIGINT: finishing this update, press Ctrl-C again to stop now" in capfd.readouterr().err
    interrupt_within(3)
    toy.train("silent", *changes(), verbosity=-1)
    assert "SIGINT" not in capfd.readouterr().err


def test_a_second_ctrl_c_keeps_the_last_checkpoint(toy, toy_module, monkeypatch):
    update = toy_module.ToyTrainer._update

    def interrupted(self, total):
        update(self, total)
        if self.epoch == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            update(self, total)

    monkeypatch.setattr(toy_module.ToyTrainer, "_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        toy.train("part", *changes())
    assert CheckpointStore(toy.folder / "part").pointed("last") == 3


def test_a_context_goes_on_after_its_first_epoch_was_cut_short(toy, toy_kernel, interrupt_within):
    context = RunContext(
        env="toy-env",
        model="toy-model",
        trainer="toy-trainer",
        overrides={"loggers": [{"use": "csv"}]},
        run_dir=toy.folder / "a",
        silent=True,
        kernel=toy_kernel,
    )
    interrupt_within(1)
    assert context.train(2).epochs == 0
    with pytest.raises(RequestError, match="nothing trained"):
        context.checkpoint()
    assert context.train(2).epochs == 2
    assert context.checkpoint("last").epoch == 2
