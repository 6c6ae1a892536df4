"""Kills training runs at random moments; prints what it found as JSON. Run by test_crashes.py in a fresh process.

Children are forked from this warm process before it starts any thread, so that a round costs a fraction of a second.
"""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import CheckpointError
from maze_kernel.loader import Kernel
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import train

EPOCHS = 400


def experiment(kernel):
    return experiment_from_mapping(
        {
            "name": "killed",
            "env": {"use": "toy-env"},
            "model": {"use": "toy-model", "padding": 300_000},
            "trainer": {"use": "toy-trainer", "n_epochs": EPOCHS},
            "vector": {"n_envs": 2},
            "evaluation": {"n_episodes": 0},
            "checkpoint": {"every_epochs": 1},
            "loggers": [{"use": "csv"}],
        },
        kernel=kernel,
    )


def run(kernel, run_dir, n_epochs=EPOCHS):
    torch.set_num_threads(1)
    if (run_dir / "run.json").exists():
        loaded = stored_experiment(run_dir, kernel=kernel, overrides=[f"trainer.n_epochs={n_epochs}"])
        return train(loaded, kernel, resume=run_dir)
    return train(experiment(kernel), kernel, run_dir=run_dir)


def kill_once(kernel, run_dir, rng):
    """One start and one kill; says whether the kill landed inside a save."""
    child = multiprocessing.get_context("fork").Process(target=run, args=(kernel, run_dir))
    child.start()
    deadline = time.monotonic() + 60
    start = newest(run_dir)
    while newest(run_dir) <= start and child.is_alive() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.1))
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return any(path.name.startswith(".tmp-epoch-") for path in (run_dir / "checkpoints").iterdir())


def newest(run_dir):
    return max(CheckpointStore(run_dir).epochs(), default=0)


def unreadable(run_dir):
    found = []
    store = CheckpointStore(run_dir)
    for epoch in store.epochs():
        try:
            store.load(epoch)
        except CheckpointError as error:
            found.append(error.what)
    return found


def main(plugin, folder, n_kills):
    kernel = Kernel.installed(load=[plugin])
    run_dir = Path(folder) / "killed"
    rng = random.Random(0)
    inside, bad, lost = 0, [], []
    for _ in range(n_kills):
        before = newest(run_dir)
        inside += kill_once(kernel, run_dir, rng)
        bad += unreadable(run_dir)
        if newest(run_dir) < before:
            lost.append(before)
    n_epochs = newest(run_dir) + 2
    run(kernel, run_dir, n_epochs)
    leftovers = [str(path) for path in run_dir.rglob(".tmp-*")]
    whole = Path(folder) / "whole"
    loaded = experiment(kernel)
    loaded = stored_experiment(run_dir, kernel=kernel, overrides=[f"trainer.n_epochs={n_epochs}"])
    train(loaded, kernel, run_dir=whole)
    print(json.dumps({"inside": inside, "unreadable": bad, "lost": lost, "leftovers": leftovers, "n_epochs": n_epochs}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
