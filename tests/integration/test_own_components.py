"""Mistakes in wrappers, trainers and callbacks of the user's own: blamed on these, at their place in the file."""

import importlib
import re
from pathlib import Path

import pytest
import typer

from maze_kernel.cli.guard import guarded

PARTS = '''
import attrs
import numpy as np
from maze_kernel.contracts.transform import Transform
from maze_runtime.training.loop_options import LoopOptions

class Steps:
    """A trainer that takes a step an epoch."""
    def __init__(self, context, options: LoopOptions):
        self.options, self.model, self.env_steps = options, context.make_model(), 0
        self.envs = context.make_vector_env()
    def start_segment(self, epoch):
        self.envs.reset([[1], [2]])
    def train_epoch(self):
        self.envs.step({"0": {"action": np.zeros(2, np.int64)}})
        self.env_steps += 2
        return {"a/b": 1.0}
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
    def close(self): self.envs.close()

class Given(Transform):
    def __init__(self, *, where: str):
        if where == "init":
            raise KeyError("my key")
        self.where = where
    def fails(self, where):
        if self.where == where:
            raise KeyError("my key")
    def bind(self, spaces):
        self.fails("bind")
        return None if self.where == "no spaces" else spaces
    def observation(self, policy_key, observation):
        self.fails("observation")
        array = observation["observation"]
        wrong = {"no dict": None, "no name": {"obs": array}, "shape": {"observation": array[..., :2]}}
        return wrong.get(self.where, observation)
    def action(self, policy_key, action):
        self.fails("action")
        return None if self.where == "no action" else action
    def reward(self, reward):
        self.fails("reward")
        return {"no reward": None, "one reward": reward.sum()}.get(self.where, reward)
    def state_dict(self):
        self.fails("state")
        return {"a": object()} if self.where == "object" else {}

class OtherParameters(Transform):
    def observation(self, observation):
        return observation

class Trainer(Steps):
    def __init__(self, context, options: LoopOptions):
        super().__init__(context, options)
class InitFails(Trainer):
    def __init__(self, context, options: LoopOptions): raise KeyError("my key")
class NoModel(Trainer):
    def __init__(self, context, options: LoopOptions): self.options, self.env_steps = options, 0
class NoWeights(Trainer):
    def __init__(self, context, options: LoopOptions): self.options, self.env_steps, self.model = options, 0, 3
def nothing(context, options: LoopOptions): pass
class SegmentParameters(Trainer):
    def start_segment(self): pass
class EpochFails(Trainer):
    def train_epoch(self): raise KeyError("my key")
class EpochExits(Trainer):
    def train_epoch(self): raise SystemExit(0)
class NoStatistics(Trainer):
    def train_epoch(self): pass
class NoNumbers(Trainer):
    def train_epoch(self): return {"a/b": {"c": 1}}
class NoSteps(Trainer):
    def train_epoch(self):
        self.env_steps = None
        return {}
class NoState(Trainer):
    def state_dict(self): pass
class ObjectState(Trainer):
    def state_dict(self): return {"a": [object()]}
class StateFails(Trainer):
    def state_dict(self): raise KeyError("my key")
class CloseFails(Trainer):
    def close(self): raise KeyError("my key")

def no_callback(context): pass
class CallbackInit:
    def __init__(self, context): raise KeyError("my key")
class Misspelt:
    def __init__(self, context): pass
    def on_epock(self, run): pass
class CallbackParameters:
    def __init__(self, context): pass
    def on_epoch(self): pass
class CallbackFails:
    def __init__(self, context): pass
    def on_epoch(self, run): raise KeyError("my key")
class CallbackExits(CallbackFails):
    def on_epoch(self, run): raise SystemExit(0)
class CallbackState(CallbackFails):
    def on_epoch(self, run): pass
    def state_dict(self): return {"a": object()}
'''
EXPERIMENT = """name = "own"
env = { use = "gym", id = "CartPole-v1" }
vector = { n_envs = 2 }
evaluation = { n_episodes = 0 }
[trainer]
use = "own_parts:TRAINER"
n_epochs = 1
"""


@pytest.fixture
def failed(maze):
    """What a training says that ends with an error at a line of the experiment."""

    def train(trainer="Steps", tables=""):
        Path("own_parts.py").write_text(PARTS)
        Path("own.toml").write_text(EXPERIMENT.replace("TRAINER", trainer) + tables)
        done = maze("train", "own.toml")
        assert done.exit_code in (1, 2), done.output
        assert "maze-runtime" not in done.stderr, "nobody else is blamed"
        shown = done.stderr.partition("error: ")[0]
        assert "maze_runtime" not in shown, "frames of the framework are left out"
        line = re.search(r"--> own.toml:(\d+):", done.stderr)
        assert line is not None, done.stderr
        return done.stderr, int(line[1])

    return train


WRAPPERS = {
    "init": "building wrapper 'own_parts:Given' failed: KeyError: 'my key'",
    "bind": "wrapper 'own_parts:Given' failed in bind: KeyError: 'my key'",
    "no spaces": "wrapper 'own_parts:Given' returned no spaces from bind",
    "observation": "wrapper own_parts:Given failed where a reset passes through it: KeyError: 'my key'",
    "no dict": "at a reset what does not fit its spaces: the observation is no dict",
    "no name": "the observation lacks the key 'observation'",
    "shape": "expected: an array of shape (2, 4), dtype float32",
    "action": "wrapper own_parts:Given failed where an action passes through it: KeyError: 'my key'",
    "no action": "the action that the wrapper returned does not fit its space",
    "reward": "wrapper own_parts:Given failed where a step passes through it: KeyError: 'my key'",
    "no reward": "at a step what does not fit its spaces: reward has another form",
    "one reward": "expected: an array of shape (2,), dtype float32",
    "state": "wrapper own_parts:Given failed in state_dict: KeyError: 'my key'",
    "object": "the state of wrapper 'own_parts:Given' cannot be saved",
}


@pytest.mark.parametrize("where", WRAPPERS)
def test_a_wrapper_of_ones_own(failed, where):
    said, line = failed(tables=f'[[wrappers]]\nuse = "own_parts:Given"\nwhere = "{where}"\n')
    assert WRAPPERS[where] in said
    assert line == 8
    assert "owner: own_parts:Given" in said
    assert ("raise KeyError" in said) == ("my key" in WRAPPERS[where]), "the line of the user's code"


def test_a_wrapper_whose_method_has_other_parameters(failed):
    said, line = failed(tables='[[wrappers]]\nuse = "own_parts:OtherParameters"\n')
    assert "received: observation(observation)\n  = expected: observation(policy_key, observation)" in said
    assert line == 8


TRAINERS = {
    "InitFails": "building trainer 'own_parts:InitFails' failed: KeyError: 'my key'",
    "NoModel": "trainer 'own_parts:NoModel' lacks model",
    "NoWeights": "the model of trainer 'own_parts:NoWeights' has no weights to save",
    "nothing": "trainer 'own_parts:nothing' lacks options, model, env_steps, start_segment",
    "SegmentParameters": "expected: start_segment(epoch)",
    "EpochFails": "trainer 'own_parts:EpochFails' failed in train_epoch: KeyError: 'my key'",
    "EpochExits": "trainer 'own_parts:EpochExits' failed in train_epoch: SystemExit: 0",
    "NoStatistics": "expected: a dict of statistics",
    "NoNumbers": "returned {'c': 1} for a/b",
    "NoSteps": "received: NoneType",
    "NoState": "state_dict of trainer 'own_parts:NoState' returned no dict",
    "ObjectState": "received: 'a.0' is of the type object",
    "StateFails": "trainer 'own_parts:StateFails' failed in state_dict: KeyError: 'my key'",
    "CloseFails": "trainer 'own_parts:CloseFails' failed in close: KeyError: 'my key'",
}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_of_ones_own(failed, trainer):
    said, line = failed(trainer)
    assert TRAINERS[trainer] in said
    assert line == 5
    assert f"owner: own_parts:{trainer}" in said


CALLBACKS = {
    "no_callback": "callback 'own_parts:no_callback' is none: it made an object of the class NoneType",
    "CallbackInit": "building callback 'own_parts:CallbackInit' failed: KeyError: 'my key'",
    "Misspelt": "expected: a component's name or table, a function of the run, or an object with on_evaluation",
    "CallbackParameters": "received: on_epoch()\n  = expected: on_epoch(run)",
    "CallbackFails": "callback own_parts:CallbackFails failed in on_epoch: KeyError: 'my key'",
    "CallbackExits": "callback own_parts:CallbackExits failed in on_epoch: SystemExit: 0",
    "CallbackState": "state 'a' is of the type object, which a checkpoint cannot hold",
}


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_of_ones_own(failed, callback):
    said, line = failed(tables=f'[[callbacks]]\nuse = "own_parts:{callback}"\n')
    assert CALLBACKS[callback] in said
    assert line == 8
    assert f"own_parts:{callback}" in said


def test_what_the_users_code_calls_wrongly_is_not_blamed_on_what_is_called(tmp_path, monkeypatch, capsys):
    file = tmp_path / "own_calls.py"
    file.write_text("from maze_runtime.env.batching import layout\n\n\ndef ask():\n    layout(None)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(typer.Exit):
        guarded(importlib.import_module("own_calls").ask, "test")()
    assert capsys.readouterr().err.rstrip().endswith(f"error: AttributeError in {file}, ask during maze test")
