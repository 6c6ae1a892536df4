"""PPO and A2C: ours against Stable-Baselines3 on the same work in one process.

Start-up and compilation are excluded: every contender warms up once. One torch thread. Nobody scales observations or
rewards, as in `kinds.py`, which has the rows that need one process and the environment's own batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import gymnasium
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

from interleaved import Contender, compare
from kind_ours import ours


@attrs.frozen(kw_only=True)
class Work:
    """One piece of work, in the words both sides need."""

    algorithm: str
    env: str
    n_envs: int
    n_steps: int
    batch_size: int = 0
    n_optimization_epochs: int = 1
    lr: float = 2.5e-4
    max_grad_norm: float = 0.5


WORK = {
    "ppo-cartpole": Work(
        algorithm="ppo", env="CartPole-v1", n_envs=8, n_steps=128, batch_size=256, n_optimization_epochs=4
    ),
    "ppo-lunarlander": Work(
        algorithm="ppo", env="LunarLander-v3", n_envs=16, n_steps=128, batch_size=512, n_optimization_epochs=4
    ),
    "a2c-cartpole": Work(algorithm="a2c", env="CartPole-v1", n_envs=8, n_steps=5, lr=7e-4),
    "ppo-growth": Work(
        algorithm="ppo", env="CartPole-v1", n_envs=64, n_steps=128, batch_size=2048, n_optimization_epochs=4
    ),
}


def maze(work: Work, n_env_steps: int, *, compiled: bool = False, vector: Mapping[str, Any] | None = None) -> Contender:
    """A contender that trains ours for about `n_env_steps`."""
    trainer: dict[str, Any] = {
        "use": work.algorithm,
        "n_rollout_steps": work.n_steps,
        "lr": work.lr,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "max_grad_norm": work.max_grad_norm,
    }
    if work.algorithm == "ppo":
        trainer |= {"batch_size": work.batch_size, "n_optimization_epochs": work.n_optimization_epochs}
    experiment = {
        "env": {"use": "gym", "id": work.env},
        "wrappers": [],  # the peer scales nothing by itself
        "vector": {"n_envs": work.n_envs, **(vector or {})},
        "trainer": trainer,
    }
    return ours(experiment, n_env_steps, compiled=compiled)


def stable_baselines(work: Work, n_env_steps: int) -> Contender:
    """A contender that trains Stable-Baselines3's for about `n_env_steps`."""
    envs = make_vec_env(work.env, n_envs=work.n_envs, seed=1)
    common: dict[str, Any] = {
        "n_steps": work.n_steps,
        "learning_rate": work.lr,
        "gae_lambda": 0.95,
        "max_grad_norm": work.max_grad_norm,
        "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        "device": "cpu",
    }
    if work.algorithm == "ppo":
        model: Any = PPO("MlpPolicy", envs, batch_size=work.batch_size, n_epochs=work.n_optimization_epochs, **common)
    else:
        model = A2C("MlpPolicy", envs, use_rms_prop=False, normalize_advantage=True, **common)
    model.learn(work.n_envs * work.n_steps)

    def run() -> float:
        before, start = model.num_timesteps, time.perf_counter()
        model.learn(n_env_steps, reset_num_timesteps=False)
        return (model.num_timesteps - before) / (time.perf_counter() - start)

    return run


def contenders(name: str, with_compiled: bool) -> dict[str, Callable[[int], Contender]]:
    """What makes each contender of one piece of work, given the environment steps a round; the yardstick first."""
    work = WORK[name]
    if name == "ppo-growth":
        few = attrs.evolve(work, n_envs=8, batch_size=256)
        return {"maze 8 envs": partial(maze, few), "maze 64 envs": partial(maze, work)}
    table: dict[str, Callable[[int], Contender]] = {"stable-baselines3": partial(stable_baselines, work)}
    for compiled in (False, True)[: 1 + with_compiled]:
        suffix = " compiled" if compiled else ""
        table[f"maze{suffix}"] = partial(maze, work, compiled=compiled)
        if not compiled:
            table["maze sequential envs"] = partial(maze, work, vector={"mode": "sequential"})
        if name == "ppo-lunarlander":
            processes = {"mode": "subprocess", "n_processes": 2}
            table[f"maze{suffix}, 2 processes"] = partial(maze, work, compiled=compiled, vector=processes)
    return table


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", choices=sorted(WORK), default="ppo-cartpole")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--env-steps", type=int, default=20_480, help="environment steps a round")
    parser.add_argument("--compile", action="store_true", help="add the compiled contenders (a minute to compile)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contenders; the first is the yardstick")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"# {arguments.work}: {WORK[arguments.work]}\ngymnasium {gymnasium.__version__}, torch {torch.__version__}\n")
    table = contenders(arguments.work, arguments.compile)
    chosen = {name: table[name](arguments.env_steps) for name in arguments.only or table}
    compare(chosen, arguments.rounds)


if __name__ == "__main__":
    main()
