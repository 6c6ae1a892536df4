"""Ours as a contender: an experiment that trains on, an epoch a round."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from interleaved import Contender


def ours(
    experiment: Mapping[str, Any], steps: int, *, compiled: bool = False, decisions: bool = False, device: str = "cpu"
) -> Contender:
    """A contender that trains for about `steps` environment steps a round; it has warmed up.

    Args:
        decisions: count decisions, of which an environment step may have several.
    """
    # Here, so that the peak memory of the peers is theirs alone
    from maze_kernel.config import experiment_from_mapping
    from maze_kernel.loader import Kernel
    from maze_runtime.run.assembly import Assembly
    from maze_runtime.training.kept_memory import freed_memory_is_kept

    trainer = dict(experiment["trainer"])
    a_rollout = experiment["vector"]["n_envs"] * trainer.get("n_rollout_steps", 1)
    trainer |= {
        "epoch_length": max(1, steps // a_rollout),
        "compile": compiled,
        "device": device,
        "max_env_steps": 10**9,
    }
    kernel = Kernel.installed()
    loaded = experiment_from_mapping({"name": "benchmark", **experiment, "trainer": trainer}, kernel=kernel)
    assembly = Assembly(loaded, kernel)
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    running.train_epoch()

    def run() -> float:
        before, start = running.env_steps, time.perf_counter()
        with freed_memory_is_kept():  # as every run does
            running.train_epoch()
        seconds = time.perf_counter() - start
        done = trainer["epoch_length"] * a_rollout if decisions else running.env_steps - before
        return float(done / seconds)

    return run
