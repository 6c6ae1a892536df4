"""Decisions a second of PPO: one policy key against two in turn, the same simulation and networks of one size.

Start-up is excluded: every contender warms up once. One torch thread.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from interleaved import Contender, compare
from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.env import Action, ActorID, Observation, StructuredSpaces
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import FlatEnv
from maze_runtime.run.assembly import Assembly

N_ENVS, N_ROLLOUT_STEPS = 8, 128


class Walk(FlatEnv):
    """A random walk of four numbers, pushed by the action, for a hundred decisions.

    Args:
        keys: policy keys that decide in turn; a step of time is one round of them.
    """

    def __init__(self, *, keys: tuple[str, ...] = ("0",)) -> None:
        place = spaces.Dict(place=spaces.Box(-np.inf, np.inf, (4,), np.float32))
        push = spaces.Dict(push=spaces.Discrete(2))
        self._keys = keys
        self.structured_spaces = StructuredSpaces(
            observation=dict.fromkeys(keys, place),
            action=dict.fromkeys(keys, push),
            agent_counts=dict.fromkeys(keys, 1),
        )
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._place, self._n_decisions = np.zeros(4, np.float32), 0
        return {"place": self._place}, {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._n_decisions += 1
        self._place += 0.1 * (self._rng.standard_normal(4, np.float32) + action["push"] - 0.5)
        return {"place": self._place}, -float(abs(self._place[0])), self._n_decisions == 100, False, {}

    def actor_id(self) -> ActorID:
        return ActorID(self._keys[self._n_decisions % len(self._keys)], 0)

    def is_flat_step_end(self) -> bool:
        return self._n_decisions % len(self._keys) == 0


def contender(keys: tuple[str, ...], n_decisions: int, critic: str = "shared-state") -> Contender:
    """Trains PPO for about `n_decisions`; returns decisions a second."""
    kernel = Kernel.installed()
    updates = max(1, n_decisions // (N_ENVS * N_ROLLOUT_STEPS))
    loaded = experiment_from_mapping(
        {
            "name": "benchmark",
            "env": {"use": "structured:Walk", "keys": list(keys)},
            "vector": {"n_envs": N_ENVS},
            "model": {"use": "auto", "critic": critic},
            "trainer": {
                "use": "ppo",
                "n_rollout_steps": N_ROLLOUT_STEPS,
                "batch_size": 256,
                "n_optimization_epochs": 4,
                "epoch_length": updates,
                "max_grad_norm": 0.5,
            },
        },
        kernel=kernel,
    )
    assembly = Assembly(loaded, kernel)
    trainer = assembly.make_trainer(assembly.trainer_context())
    trainer.start_segment(0)

    def run() -> float:
        start = time.perf_counter()
        trainer.train_epoch()
        return updates * N_ENVS * N_ROLLOUT_STEPS / (time.perf_counter() - start)

    run()
    return run


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decisions", type=int, default=10_240, help="decisions a round")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compare(
        {
            "flat": contender(("0",), arguments.decisions),
            "two policy keys, shared critic": contender(("first", "second"), arguments.decisions),
            "two policy keys, step critic": contender(("first", "second"), arguments.decisions, "step-state"),
            "two policy keys, delta critic": contender(("first", "second"), arguments.decisions, "delta-state"),
        },
        arguments.rounds,
        "decisions/s",
    )


if __name__ == "__main__":
    main()
