"""DQN: environment steps a second, ours against Stable-Baselines3, CartPole-v1, 2 x 64, an update of 64 in four steps.

The same work on both sides: no double, no duelling, one-step returns, a hard copy every 250 updates; `--all` adds ours
with all of these and prioritised replay. One environment is stepped by itself, as theirs is, for a native batch of one
costs more than the pole; four are a native batch. Start-up, the random start and compilation are excluded: all warm up
once.
"""

from __future__ import annotations

import argparse
import time

import torch
from stable_baselines3 import DQN

from interleaved import Contender, compare
from kind_ours import ours

N_START = 1000
EVERY = 4
"""Environment steps an update."""


def maze(steps: int, *, n_envs: int = 1, compiled: bool = False, **options: object) -> Contender:
    """Ours, for so many environment steps a round."""
    experiment = {
        "env": {"use": "gym", "id": "CartPole-v1"},
        "vector": {"n_envs": n_envs, "mode": "sequential" if n_envs == 1 else "native"},
        "model": {"use": "auto", "hidden_units": [64, 64], "non_lin": "relu"},
        "trainer": {
            "use": "dqn",
            "n_rollout_steps": EVERY // n_envs,
            "num_batches_per_iter": 1,
            "batch_size": 64,
            "initial_buffer_size": N_START,
            "epsilon": 0.05,
            "double": False,
            "n_step": 1,
            "tau": 1.0,
            "target_update_interval": 250,
            **options,
        },
    }
    return ours(experiment, steps, compiled=compiled)


def stable_baselines3(steps: int) -> Contender:
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        learning_starts=N_START,
        batch_size=64,
        train_freq=EVERY,
        target_update_interval=1000,
        buffer_size=100_000,
        exploration_fraction=0.001,
        policy_kwargs={"net_arch": [64, 64]},
        device="cpu",
    )
    model.learn(N_START + 400)

    def run() -> float:
        start = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - start)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--all", action="store_true", help="ours with everything it offers, too")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    steps = arguments.steps
    contenders = {"Stable-Baselines3": stable_baselines3(steps), "maze": maze(steps)}
    contenders["maze, 4 environments"] = maze(steps, n_envs=4)
    if arguments.compile:
        contenders["maze, compiled"] = maze(steps, compiled=True)
    if arguments.all:
        contenders["maze, everything"] = maze(steps, double=True, duelling=True, prioritized=True, n_step=3)
    compare(contenders, arguments.rounds, unit="steps/s")


if __name__ == "__main__":
    main()
