"""SAC on HalfCheetah-v5 (MuJoCo) by the settings of the papers: reward at equal steps, ours against Stable-Baselines3.

Both have the same networks, optimiser settings, random start, one environment and one update a step, and are evaluated
on the same five seeds with deterministic actions; `examples/halfcheetah_sac.toml` has settings that learn faster. Each
contender and seed leaves a folder with `statistics/eval.csv`, which `docs/draw_learning_curve.py` draws. Needs
`pip install 'gymnasium[mujoco]'`.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from maze_kernel.config import load_experiment
from maze_runtime.training.train import train

EXAMPLE = Path(__file__).parents[1] / "examples" / "halfcheetah_sac.toml"
PAPERS = (
    "model.hidden_units=[256, 256]",
    "trainer.lr=3e-4",
    "trainer.entropy_coef=1.0",
    "trainer.entropy_coef_lr=3e-4",
)
REWARD = "BaseEnvEvents/reward/mean"


def ours(folder: Path, seed: int, n_steps: int, every: int) -> None:
    """A run directory."""
    overrides = [*PAPERS, f"seed={seed}", f"trainer.max_env_steps={n_steps}", 'loggers=[{use="csv"}]']
    loaded = load_experiment(EXAMPLE, overrides=[*overrides, f"evaluation.every_epochs={every // 1000}"])
    train(loaded, loaded.kernel, run_dir=folder, verbosity=-1)


class Evaluations(BaseCallback):
    """Plays five episodes every so many steps and keeps their mean reward."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.rows: list[tuple[int, float]] = []
        self._every = every
        self._env = Monitor(gymnasium.make("HalfCheetah-v5"))

    def _on_step(self) -> bool:
        if self.num_timesteps % self._every == 0:
            self._env.reset(seed=1)
            mean, _ = evaluate_policy(self.model, self._env, n_eval_episodes=5, deterministic=True, warn=False)
            self.rows.append((self.num_timesteps, float(mean)))
        return True


def stable_baselines3(folder: Path, seed: int, n_steps: int, every: int) -> None:
    """A folder with the same file of evaluations."""
    model = SAC("MlpPolicy", "HalfCheetah-v5", learning_starts=1000, batch_size=256, seed=seed, device="cpu")
    evaluations = Evaluations(every)
    model.learn(n_steps, callback=evaluations)
    (folder / "statistics").mkdir(parents=True)
    with open(folder / "statistics" / "eval.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("env_steps", "tag", "value"))
        writer.writerows((steps, REWARD, reward) for steps, reward in evaluations.rows)


CONTENDERS: dict[str, Callable[[Path, int, int, int], Any]] = {"maze": ours, "sb3": stable_baselines3}


def main() -> None:
    """Parse the arguments, run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="gets a folder a contender and seed")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=2000, help="steps between evaluations, in thousands")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for seed in arguments.seeds:
        for name in arguments.only:
            folder, start = arguments.folder / f"{name}-{seed}", time.perf_counter()
            CONTENDERS[name](folder, seed, arguments.steps, arguments.every)
            with open(folder / "statistics" / "eval.csv", encoding="utf-8", newline="") as file:
                rewards = [float(row["value"]) for row in csv.DictReader(file) if row["tag"] == REWARD]
            minutes = (time.perf_counter() - start) / 60
            print(f"| {name} | {seed} | {rewards[-1]:,.0f} | {max(rewards):,.0f} | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
