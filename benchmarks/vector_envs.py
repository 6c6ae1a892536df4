"""Environment steps a second: sequential, subprocess (2 workers) and Gymnasium's AsyncVectorEnv, on the same work.

    python benchmarks/vector_envs.py --rounds 3 --steps 1000

Random actions drawn beforehand, episodes restarting by themselves, start-up excluded.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from interleaved import compare
from maze_gym.env import make_env
from maze_gym.options import GymOptions
from maze_kernel.contracts.env import FLAT_KEY
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

WORKS = {"cartpole": "CartPole-v1", "lunarlander": "LunarLander-v3"}


def _actions(env_id: str, n_steps: int, n_envs: int) -> np.ndarray:
    env = gymnasium.make(env_id)
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    env.close()
    return np.random.default_rng(0).integers(n_actions, size=(n_steps, n_envs))


def _time(step: Callable[[np.ndarray], Any], actions: np.ndarray) -> float:
    n_warm = min(50, len(actions) // 4)
    for row in actions[:n_warm]:
        step(row)
    start = time.perf_counter()
    for row in actions[n_warm:]:
        step(row)
    return (len(actions) - n_warm) * actions.shape[1] / (time.perf_counter() - start)


def _ours(make: Callable[[Any], Any], env_id: str, actions: np.ndarray) -> float:
    n_envs = actions.shape[1]
    vector_env = make([functools.partial(make_env, GymOptions(id=env_id))] * n_envs)
    try:
        vector_env.reset([[index] for index in range(n_envs)])
        return _time(lambda row: vector_env.step({FLAT_KEY: {"action": row}}), actions)
    finally:
        vector_env.close()


def _gymnasium(env_id: str, actions: np.ndarray) -> float:
    vector_env = gymnasium.make_vec(env_id, num_envs=actions.shape[1], vectorization_mode="async")
    try:
        vector_env.reset(seed=0)
        return _time(vector_env.step, actions)
    finally:
        vector_env.close()


def main() -> None:
    """Run every work with every number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", choices=sorted(WORKS), action="append")
    parser.add_argument("--n-envs", type=int, action="append")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    for work in options.work or WORKS:
        for n_envs in options.n_envs or (8, 16):
            env_id = WORKS[work]
            actions = _actions(env_id, options.steps, n_envs)
            subprocess_env = functools.partial(SubprocessVectorEnv, n_processes=options.processes)
            print(f"\n{env_id}, {n_envs} environments, {options.processes} processes")
            compare(
                {
                    "sequential": functools.partial(_ours, SequentialVectorEnv, env_id, actions),
                    "subprocess": functools.partial(_ours, subprocess_env, env_id, actions),
                    "gymnasium AsyncVectorEnv": functools.partial(_gymnasium, env_id, actions),
                },
                options.rounds,
            )


if __name__ == "__main__":
    main()
