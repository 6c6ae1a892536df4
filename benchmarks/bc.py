"""BC: samples a second, ours against `imitation`; CartPole-shaped data, batch 256, 2 x 64 tanh networks, Adam.

`imitation` needs releases of Gymnasium and Stable-Baselines3 that ours does not run with, so it lives in an environment
of its own and works in a process that waits while ours works:

    python -m venv .peers && .peers/bin/pip install imitation
    python benchmarks/bc.py --peer .peers/bin/python --compile

Start-up and compilation are excluded: every contender warms up once. One torch thread each.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from interleaved import Contender, compare
from maze_bc.data import Decisions, Episode
from maze_bc.options import BCOptions
from maze_bc.trainer import BCTrainer
from maze_kernel.config import experiment_from_mapping, select
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces
from maze_runtime.run.assembly import Assembly

N_ROWS, BATCH_SIZE = 51_200, 256


class Synthetic:
    """Rows like those of CartPole-v1, in one episode."""

    def __init__(self, n_rows: int) -> None:
        rng = np.random.default_rng(0)
        observation = rng.standard_normal((n_rows, 4)).astype(np.float32)
        box = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.spaces = flat_spaces(spaces.Dict({"observation": box}), spaces.Dict({"action": spaces.Discrete(2)}))
        self.lengths: Sequence[int] = [n_rows]
        action = (observation.sum(-1) > 0).astype(np.int64)
        self._rows = Decisions(
            {"observation": observation}, {"action": action}, np.zeros(n_rows, np.int64), np.arange(n_rows)
        )

    def expect(self, episodes: Sequence[int]) -> None:
        return

    def read(self, index: int) -> Episode:
        return {"0": self._rows}

    def close(self) -> None:
        return


def ours(*, compiled: bool = False) -> Contender:
    """One pass over the data a round."""
    kernel = Kernel.installed()
    options = BCOptions(
        demonstrations=select(kernel, "dataset", {"path": "unused"}),
        batch_size=BATCH_SIZE,
        validation_percentage=0.0,
        device="cpu",
        compile=compiled,
    )
    data = {
        "name": "benchmark",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "model": {"use": "auto", "hidden_units": [64, 64], "non_lin": "tanh"},
        "trainer": {"use": "bc", "demonstrations": {"path": "unused"}},
    }
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    trainer = BCTrainer(assembly.trainer_context(), options, Synthetic(N_ROWS))
    trainer.start_segment(0)

    def run() -> float:
        start = time.perf_counter()
        trainer.train_epoch()
        return N_ROWS / (time.perf_counter() - start)

    run()
    return run


PEER = f"""
import sys, time, gymnasium, numpy as np, torch
from imitation.algorithms import bc
from imitation.data.types import Transitions
from imitation.util import logger
from stable_baselines3.common.policies import ActorCriticPolicy
torch.set_num_threads(1)
observation = np.random.default_rng(0).standard_normal(({N_ROWS}, 4)).astype(np.float32)
action = (observation.sum(-1) > 0).astype(np.int64)
data = Transitions(observation, action, np.array([{{}}] * {N_ROWS}), observation, np.zeros({N_ROWS}, bool))
box = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
discrete = gymnasium.spaces.Discrete(2)
policy = ActorCriticPolicy(box, discrete, lambda _: 1e-3, net_arch=[64, 64])
trainer = bc.BC(
    observation_space=box, action_space=discrete, rng=np.random.default_rng(0), demonstrations=data, policy=policy,
    batch_size={BATCH_SIZE}, device="cpu", custom_logger=logger.configure(None, []),
)
for _ in sys.stdin:
    start = time.perf_counter()
    trainer.train(n_epochs=1, progress_bar=False, log_interval=10**9)
    print({N_ROWS} / (time.perf_counter() - start), flush=True)
"""


def imitation(python: Path) -> Contender:
    """A contender in another Python, which works when it is asked to."""
    process = subprocess.Popen([python, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    to, answers = process.stdin, process.stdout

    def run() -> float:
        to.write("\n")
        to.flush()
        return float(answers.readline())

    run()
    return run


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="Python of an environment with imitation; without it only ours runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    contenders = {"imitation": imitation(arguments.peer)} if arguments.peer else {}
    contenders["maze"] = ours()
    if arguments.compile:
        contenders["maze, compiled"] = ours(compiled=True)
    compare(contenders, arguments.rounds, unit="samples/s")


if __name__ == "__main__":
    main()
