"""TD3: gradient updates a second, ours against Stable-Baselines3, Pendulum-v1, batch 256, 2 x 256, one update a step.

Start-up, the random start and compilation are excluded: every contender warms up once.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from stable_baselines3 import TD3
from stable_baselines3.common.noise import NormalActionNoise

from interleaved import Contender, compare
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly

N_START = 1000


def ours(n_updates: int, *, compiled: bool = False) -> Contender:
    data = {
        "name": "benchmark",
        "env": {"use": "gym", "id": "Pendulum-v1"},
        "vector": {"n_envs": 1},
        "model": {"use": "auto", "hidden_units": [256, 256], "non_lin": "relu"},
        "trainer": {"use": "td3", "epoch_length": n_updates, "initial_buffer_size": N_START, "compile": compiled},
    }
    kernel = Kernel.installed()
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)
    trainer.train_epoch()

    def run() -> float:
        start = time.perf_counter()
        trainer.train_epoch()
        return n_updates / (time.perf_counter() - start)

    return run


def stable_baselines3(n_updates: int) -> Contender:
    noise = NormalActionNoise(np.zeros(1), np.full(1, 0.1))
    policy = {"net_arch": [256, 256]}
    model = TD3(
        "MlpPolicy",
        "Pendulum-v1",
        learning_starts=N_START,
        batch_size=256,
        action_noise=noise,
        policy_kwargs=policy,
        device="cpu",
    )
    model.learn(N_START + 50)

    def run() -> float:
        start = time.perf_counter()
        model.learn(n_updates, reset_num_timesteps=False)
        return n_updates / (time.perf_counter() - start)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    contenders = {"Stable-Baselines3": stable_baselines3(arguments.updates), "maze": ours(arguments.updates)}
    if arguments.compile:
        contenders["maze, compiled"] = ours(arguments.updates, compiled=True)
    compare(contenders, arguments.rounds, unit="updates/s")


if __name__ == "__main__":
    main()
