"""What a larger machine has to be planned for: time an environment step, memory an environment, bytes an exchange.

    python benchmarks/scaling.py

One row an environment. `docs/explanation/scaling.md` sizes a cluster with these figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.collector import Collector, make_buffer
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly

ENVS: dict[str, Mapping[str, Any]] = {
    "CartPole-v1": {"use": "gym", "id": "CartPole-v1"},
    "LunarLander-v3": {"use": "gym", "id": "LunarLander-v3"},
    "cutting-2d, structured": {"use": "cutting-2d", "version": "structured"},
}

N_ENVS = 64
N_STEPS = 128


def assembly_of(name: str) -> Assembly:
    """A PPO experiment with the default model."""
    kernel = Kernel.installed()
    data = {"name": "scaling", "env": dict(ENVS[name]), "vector": {"mode": "sequential"}, "trainer": {"use": "ppo"}}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str) -> tuple[float, float, int, float]:
    """Microseconds a decision, KiB an environment, bytes of weights, bytes of rollout a decision.

    A decision is what one policy key is asked for once; policy included, one thread.
    """
    torch.set_num_threads(1)
    assembly = assembly_of(name)
    model: Any = assembly.make_model()
    one = SequentialVectorEnv([assembly.env_factory()])
    one.reset([[0]])
    before = resident_bytes()
    many = SequentialVectorEnv([assembly.env_factory()] * N_ENVS)
    collector = Collector(many, assembly.make_policy(model, 0))
    collector.reset([[seed] for seed in range(N_ENVS)])
    kibibytes = (resident_bytes() - before) / N_ENVS / 1024
    buffer = make_buffer(many.structured_spaces, N_STEPS, N_ENVS)
    collector.collect(buffer)
    start = time.perf_counter()
    collector.collect(buffer)
    microseconds = (time.perf_counter() - start) / (N_STEPS * N_ENVS) * 1e6
    rollout = sum(array.nbytes for array in buffer.columns().values()) / (N_STEPS * N_ENVS)
    for vector_env in (one, many):
        vector_env.close()
    return microseconds, kibibytes, FlatParameters(model).data.nbytes, rollout


def main() -> None:
    """Measure each environment in a process of its own, so that memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=ENVS, help="only this one, in this process")
    name = parser.parse_args().env
    if name is not None:
        microseconds, kibibytes, weights, rollout = measure(name)
        print(f"| {name} | {microseconds:.0f} | {kibibytes:.0f} | {weights / 1024:.0f} | {rollout:.0f} |")
        return
    print("| environment | µs a decision | KiB an environment | KiB of weights | bytes of rollout a decision |")
    print("|---|---|---|---|---|", flush=True)
    for name in ENVS:
        subprocess.run([sys.executable, __file__, "--env", name], check=True)


if __name__ == "__main__":
    main()
