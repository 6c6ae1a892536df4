"""IMPALA: steps a second on CartPole-v1 with 2 worker processes, beside RLlib's IMPALA, Sample Factory and our own PPO.

16 environments, rollouts of 32 steps, 512 steps a batch, one update each, two hidden layers of 64 tanh units, the
learner on the CPU with one thread. Peers run in interpreters of their own (`--rllib`, `--sample-factory`): their
requirements exclude each other; without these options they are left out. Each round lets every contender warm up for
some seconds and then counts the steps it trained on for as long again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

from interleaved import Contender, compare
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly

N_ENVS, N_STEPS, N_ROLLOUTS = 16, 32, 16
PEERS = Path(__file__).parent / "peers"
IMPALA = {"use": "impala", "num_actors": N_ENVS, "n_rollout_steps": N_STEPS, "actors_batch_size": N_ROLLOUTS}
PPO = {"use": "ppo", "n_rollout_steps": N_STEPS, "batch_size": N_STEPS * N_ROLLOUTS, "n_optimization_epochs": 1}
WORKERS = {"use": "subprocess", "count": 2, "preload": ["maze_impala.actor"]}


def ours(seconds: float, trainer: dict[str, Any], **tables: Any) -> Contender:
    """A contender that trains ours."""
    kernel = Kernel.installed()
    data = {
        "name": "benchmark",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "vector": {"n_envs": N_ENVS},
        "model": {"use": "auto", "hidden_units": [64, 64], "non_lin": "tanh"},
        "trainer": {"epoch_length": 10, **trainer},
        **tables,
    }

    def run() -> float:
        assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
        learner = assembly.make_trainer(assembly.trainer_context())
        learner.start_segment(0)
        _train(learner, seconds)
        rate = _train(learner, seconds)
        learner.close()
        return rate

    return run


def _train(learner: Any, seconds: float) -> float:
    before, start = learner.env_steps, time.perf_counter()
    compiling = 0.0
    while time.perf_counter() < start + seconds + compiling:
        compiling += learner.train_epoch()["Timing/compile_seconds"]
    return float((learner.env_steps - before) / (time.perf_counter() - start - compiling))


def peer(seconds: float, interpreter: str, script: str) -> Contender:
    """A contender that runs a script of `peers/` with an interpreter of its own."""
    command = [interpreter, str(PEERS / script), *map(str, (seconds, N_ENVS, N_STEPS, N_ROLLOUTS))]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def run() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **threads})
        return float(done.stdout.split()[-1])

    return run


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of warming up, and of counting")
    parser.add_argument("--rllib", metavar="PYTHON", help="an interpreter that has ray[rllib]")
    parser.add_argument("--sample-factory", metavar="PYTHON", help="an interpreter that has sample-factory")
    parser.add_argument("--compile", action="store_true", help="add ours compiled")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"# CartPole-v1, 2 processes, {N_ENVS} environments, {N_STEPS * N_ROLLOUTS} steps a batch")
    table: dict[str, Contender] = {}
    if arguments.rllib:
        table["rllib impala"] = peer(arguments.seconds, arguments.rllib, "rllib_impala.py")
    if arguments.sample_factory:
        table["sample factory"] = peer(arguments.seconds, arguments.sample_factory, "sample_factory_impala.py")
    table["maze impala"] = ours(arguments.seconds, IMPALA, workers=WORKERS)
    if arguments.compile:
        table["maze impala, compiled"] = ours(arguments.seconds, {**IMPALA, "compile": True}, workers=WORKERS)
    table["maze impala, one process"] = ours(arguments.seconds, IMPALA)
    table["maze ppo, one process"] = ours(arguments.seconds, PPO)
    compare(table, arguments.rounds)


if __name__ == "__main__":
    main()
