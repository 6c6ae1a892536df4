"""What statistics cost: steps a second with them and without, of environments that step under random actions.

`cutting-2d` fires events in every step and has a KPI: with and without event statistics. `CartPole-v1` (stepped as one
batch) and `LunarLander-v3` fire none: bare, with `log-stats`, with `monitoring`, with `observation-normalization`.
Steps a second of processor time in many short rounds: differences are smaller than what other programs do to the clock.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maze_cutting2d.conversions import CuttingHeads, InventoryObservation
from maze_cutting2d.core_env import CuttingCoreEnv
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.rewards import DefaultReward
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.loader import Kernel
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly

N_ENVS = 8
N_TICKS = 256
WRAPPERS: dict[str, list[dict[str, Any]]] = {
    "bare": [],
    "log-stats": [{"use": "log-stats"}],
    "monitoring": [{"use": "monitoring", "observations": True, "rewards": True}],
    "normalization, running": [{"use": "observation-normalization", "statistics": "running"}],
    "normalization, by hand": [
        {"use": "observation-normalization", "keys": {"observation": {"mean": [0.0], "std": [2.0]}}}
    ],
}


class Work:
    """Steps one batch with actions that were drawn before the clock started."""

    def __init__(self, vector_env: Any) -> None:
        self._env = vector_env
        policy = RandomPolicy(PolicyContext(spaces=vector_env.structured_spaces, seed=0))
        tick = vector_env.reset([[index] for index in range(N_ENVS)])
        self._actions = [{key: policy.act(key, group) for key, group in tick.groups.items()} for _ in range(N_TICKS)]

    def __call__(self) -> float:
        """Steps a second of processor time, statistics fetched."""
        start = time.process_time()
        for actions in self._actions:
            self._env.step(actions)
        drain = getattr(self._env, "drain_batch_statistics", None)
        if drain is not None:
            drain()
        return N_TICKS * N_ENVS / (time.process_time() - start)


def compare(contenders: dict[str, Work], rounds: int) -> None:
    """Print the upper quartile of each contender's rounds, which nobody disturbed, and its ratio to the first."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            rates[name].append(work())
    best = {name: float(np.quantile(values, 0.75)) for name, values in rates.items()}
    first = next(iter(best))
    print(f"\n| upper quartile of {rounds} rounds | steps/s | ÷ {first} |\n|---|---|---|")
    for name, rate in best.items():
        print(f"| {name} | {rate:,.0f} | {rate / best[first]:.3f} |")


def cutting(event_statistics: bool) -> Callable[[], MazeEnv]:
    """A flat cutting environment whose events are counted, or not."""
    options = CuttingOptions(version="flat")

    def build() -> MazeEnv:
        return MazeEnv(
            CuttingCoreEnv(options),
            InventoryObservation(options),
            CuttingHeads(options),
            reward_aggregator=DefaultReward(),
            event_statistics=event_statistics,
        )

    return build


def wrapped(env_id: str, wrappers: Sequence[dict[str, Any]]) -> Any:
    """A batch as training has it."""
    data = {
        "name": "log-stats",
        "env": {"use": "gym", "id": env_id},
        "vector": {"n_envs": N_ENVS},
        "trainer": {"use": "ppo"},
        "wrappers": list(wrappers),
    }
    kernel = Kernel.installed()
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_vector_env(N_ENVS)


def main() -> None:
    """Compare on every environment asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", default=["cutting-2d", "CartPole-v1", "LunarLander-v3"])
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    for work in arguments.work:
        print(f"\n### {work}")
        if work == "cutting-2d":
            batches = {
                f"event statistics {'on' if on else 'off'}": SequentialVectorEnv([cutting(on)] * N_ENVS)
                for on in (False, True)
            }
        else:
            batches = {name: wrapped(work, wrappers) for name, wrappers in WRAPPERS.items()}
        compare({name: Work(batch) for name, batch in batches.items()}, arguments.rounds)


if __name__ == "__main__":
    main()
