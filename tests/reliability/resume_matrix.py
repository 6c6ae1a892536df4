"""Promise 2 for every trainer and every kind of run: a run that is stopped and goes on equals the undisturbed one.

The files test_*_resumes.py, one an algorithm, call `assert_resumes` for the `VARIANTS` that it serves.

Compared are weights, optimiser, counters, wrapper statistics, which checkpoint is the best one, and every line of the
learning curves. A run is stopped in three ways: killed between an epoch and its checkpoint, by Ctrl-C between two
epochs, and by Ctrl-C within an epoch. What a kill leaves on the disk is copied from the undisturbed run; kills at any
moment of a save are the subject of test_crashes.py and test_starts_and_ends.py.
"""

import csv
import json
import os
import shutil
import signal

from maze_kernel.config.load import experiment_from_mapping
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.interruption import Interruption
from maze_runtime.training.train import train

N_EPOCHS = 4
STOPPED_AFTER = 2
NOISY = ("seconds", "per_second")
"""Parts of the tags of statistics that tell how fast a run was."""

CUTTING = {"use": "cutting-2d", "version": "structured", "max_episode_steps": 20, "max_pieces_in_inventory": 12}
POOL = {"workers": {"use": "subprocess", "count": 2, "preload": ["maze_runtime.training.train"]}}
DENSE = {"use": "dense", "hidden_units": [8]}
GRU = {"use": "gru", "hidden_size": 8, "stateful": True}

VARIANTS = {
    "plain": {},
    "running": {"wrappers": [{"use": "observation-normalization", "statistics": "running"}]},
    "estimated": {"wrappers": [{"use": "observation-normalization", "n_estimation_steps": 50}]},
    "vector-processes": {"vector": {"n_envs": 2, "mode": "subprocess", "n_processes": 2}},
    "workers": POOL,
    "structured": {"env": CUTTING},
    "recurrent": {"model": {"use": "concat", "blocks": {"feature": DENSE}, "recurrence": GRU}},
    "schedule": {},  # of an option of the trainer, which its test adds
    "stacked": {"wrappers": [{"use": "observation-stack", "n": 3}]},
    "stochastic-evaluation": {"evaluation": {"n_episodes": 2, "deterministic": False}},
    "sparse-evaluation": {"evaluation": {"n_episodes": 2, "every_epochs": 3, "deterministic": False}},
}
"""Name to tables of the experiment."""

STARTS_PROCESSES = ("vector-processes", "workers")
"""Kinds of run that take long to start: these are interrupted within an epoch only."""


class At:
    """A logger that calls `act()` when it gets an epoch."""

    def __init__(self, epoch, act):
        self.epoch, self.act = epoch, act

    def write(self, record):
        if record.epoch == self.epoch:
            self.act()


def record(kernel, folder, env):
    """Recorded random episodes of an environment."""
    loaded = experiment_from_mapping({"name": "demo", "env": env, "trainer": {"use": "ppo"}}, kernel=kernel)
    roll_out(loaded, kernel, RolloutOptions(n_episodes=4, record_dir=folder / "demonstrations"), policy="random")
    return {"path": str(folder / "demonstrations")}


def everything(run_dir):
    folder = run_dir / "checkpoints" / f"epoch-{N_EPOCHS:06d}"
    state = json.loads((folder / "state.json").read_text())
    state["state"]["loop"]["wall_seconds"] = 0
    statistics = run_dir / "normalization.json"
    store = CheckpointStore(run_dir)
    return {
        "weights": (folder / "model.safetensors").read_bytes(),
        "trainer": (folder / "trainer.safetensors").read_bytes(),
        "state": state,
        "normalization": statistics.read_text() if statistics.exists() else None,
        "pointers": (store.pointed("best"), store.pointed("last")),
        "train": rows(run_dir / "statistics" / "train.csv"),
        "eval": rows(run_dir / "statistics" / "eval.csv"),
    }


def assert_equal(resumed, undisturbed):
    """Says which parts differ, and of learning curves the first lines."""
    lines = [pair for name in ("train", "eval") for pair in zip(resumed[name], undisturbed[name], strict=False)]
    differing = [name for name, part in undisturbed.items() if resumed[name] != part]
    assert not differing, (differing, [pair for pair in lines if pair[0] != pair[1]][:3])


def rows(path):
    with path.open() as file:
        return [
            (row["epoch"], row["tag"], row["env_steps"], row["value"])
            for row in csv.DictReader(file)
            if not any(word in row["tag"] for word in NOISY)
        ]


def assert_resumes(kernel, tmp_path, monkeypatch, variant, trainer, env="CartPole-v1"):
    """Stop and resume a tiny run in three ways.

    Args:
        variant: name of one of `VARIANTS`.
        trainer: its table. What is None there stands for recorded random episodes of the environment.
        env: id of the environment, where the variant has none of its own.
    """
    tables = {
        "env": {"use": "gym", "id": env},
        "vector": {"n_envs": 2},
        "evaluation": {"n_episodes": 2},
        **VARIANTS[variant],
    }
    trainer = {
        name: record(kernel, tmp_path, tables["env"]) if value is None else value for name, value in trainer.items()
    }
    data = {
        "name": "matrix",
        "seed": 3,
        "trainer": {"n_epochs": N_EPOCHS, **trainer},
        "checkpoint": {"every_epochs": 1},
        "loggers": [{"use": "csv"}],
        **tables,
    }

    def load():
        return experiment_from_mapping(data, kernel=kernel)

    whole, killed, between, within = (tmp_path / name for name in ("whole", "killed", "between", "within"))

    def kill():
        shutil.copytree(whole, killed, symlinks=True)

    train(load(), kernel, run_dir=whole, extra_loggers=[At(STOPPED_AFTER + 1, kill)])
    undisturbed = everything(whole)
    assert len({epoch for epoch, *_ in undisturbed["train"]}) == N_EPOCHS
    assert undisturbed["eval"]

    train(load(), kernel, resume=killed)
    assert "resumed from epoch" in (killed / "log.txt").read_text()
    assert_equal(everything(killed), undisturbed)

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    if variant not in STARTS_PROCESSES:
        stopped = train(load(), kernel, run_dir=between, extra_loggers=[At(STOPPED_AFTER, interrupt)])
        assert (stopped.outcome.status, stopped.epochs) == ("interrupted", STOPPED_AFTER)
        train(load(), kernel, resume=between)
        assert_equal(everything(between), undisturbed)

    def interrupt_within():
        """At the next look between two updates."""
        check = Interruption.check

        def looked(interruption):
            monkeypatch.setattr(Interruption, "check", check)
            interrupt()
            check(interruption)

        monkeypatch.setattr(Interruption, "check", looked)

    stopped = train(load(), kernel, run_dir=within, extra_loggers=[At(STOPPED_AFTER, interrupt_within)])
    assert (stopped.outcome.status, stopped.epochs) == ("interrupted", STOPPED_AFTER)
    assert f"epoch {STOPPED_AFTER + 1} was cut short" in (within / "log.txt").read_text()
    train(load(), kernel, resume=within)
    assert_equal(everything(within), undisturbed)
