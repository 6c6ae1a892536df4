"""The suite of callbacks passes those that keep the contract and names the rule that others break."""

import numpy as np
import pytest
import torch

from maze_runtime.training.callbacks import Callback
from maze_testing.callbacks import REWARDS, check_callback
from maze_testing.conformance import ConformanceError


class Patient(Callback):
    """Lowers the rate when the reward falls, remembers how often, and stops after three times."""

    def __init__(self, context):
        self.context = context
        self.last = -np.inf
        self.falls = np.zeros(1, np.int64)

    def on_evaluation(self, run):
        reward = run.value("BaseEnvEvents/reward/mean")
        if reward < self.last:
            self.falls = self.falls + 1
            run.set_option("lr", run.option("lr") / 2)
            run.message(f"fell {int(self.falls[0])} times")
            (self.context.run_dir / "falls.txt").write_text(str(self.falls))
        self.last = reward
        if self.falls[0] == 2:
            run.stop("it falls again and again")

    def state_dict(self):
        return {"last": self.last, "falls": self.falls}

    def load_state_dict(self, state):
        self.last, self.falls = state["last"], state["falls"]


def test_a_callback_that_remembers_passes(tmp_path):
    contexts = []

    def make(context):
        contexts.append(context)
        return Patient(context)

    check_callback(make, tmp_path / "run")
    assert contexts[0].metric == "BaseEnvEvents/reward/mean"
    assert len({context.run_dir for context in contexts}) == len(contexts) > 3


def test_functions_and_classes_with_one_method_pass(tmp_path):
    epochs = []
    check_callback(lambda _context: lambda run: epochs.append((run.epoch, run.best_epoch)), tmp_path / "function")
    assert epochs[: len(REWARDS)] == [(n, b) for n, b in enumerate((1, 2, 2, 2, 2, 6, 6, 6, 6, 10), start=1)]

    class Checkpoints:
        def on_checkpoint(self, run, folder):
            assert folder.is_dir()
            (folder / "seen").write_text(str(run.epoch))

    check_callback(lambda _context: Checkpoints(), tmp_path / "class")
    assert (tmp_path / "class" / "every-1" / "whole" / "checkpoints" / "epoch-000004" / "seen").read_text() == "4"


class Forgetful(Patient):
    def state_dict(self):
        return {}


class HalfForgetful(Patient):
    def load_state_dict(self, state):
        self.falls = state["falls"]


class Unsteady(Patient):
    def state_dict(self):
        self.falls = self.falls + 1
        return super().state_dict()


class Unsaveable(Patient):
    def state_dict(self):
        return {"context": self.context}


class Elsewhere(Callback):
    def __init__(self, context):
        self.file = context.run_dir.parent.parent.parent / "elsewhere.txt"

    def on_epoch(self, run):
        self.file.write_text("x")


class Meddler(Callback):
    def __init__(self, _context):
        pass

    def on_epoch(self, run):
        with torch.no_grad():
            run.model.weight.add_(1.0)


class Editor(Callback):
    def __init__(self, _context):
        pass

    def on_evaluation(self, run):
        run.record.evaluation["mine"] = 1.0


class Silent(Callback):
    def __init__(self, _context):
        pass

    def on_epoch(self, run):
        run.stop("")


class Greedy(Callback):
    """Takes for granted that every epoch was evaluated."""

    def __init__(self, _context):
        pass

    def on_epoch(self, run):
        assert run.record.evaluation["BaseEnvEvents/reward/mean"] > 0


@pytest.mark.parametrize(
    ("factory", "rule"),
    [
        (Forgetful, "something else than one that never stopped"),
        (HalfForgetful, "state_dict after load_state_dict"),
        (Unsteady, "when it is called again"),
        (Unsaveable, "a checkpoint cannot hold"),
        (Elsewhere, "outside the run directory"),
        (Meddler, "on_epoch changes weights"),
        (Editor, "on_evaluation changes the statistics"),
        (Silent, "without a reason"),
        (Greedy, "Greedy failed in on_epoch: KeyError"),
        (lambda _context: 3, "an object of the class int"),
        (lambda _context: Patient, "the class Patient"),
    ],
)
def test_broken_rules_are_named(factory, rule, tmp_path):
    with pytest.raises(ConformanceError, match=rule):
        check_callback(factory, tmp_path / "run")
