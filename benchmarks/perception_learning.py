"""Models that know the form of their observation against flatten-and-concat: the same PPO, steps and seeds.

The image task needs `pip install minigrid`. Writes one row a run; prints the table of docs/explanation/perception.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.training.train import train

FLATTEN: dict[str, Any] = {
    "use": "concat",
    "blocks": {"all": {"use": "flatten-dense", "hidden_units": [128], "non_lin": "tanh"}},
    "hidden": {"use": "dense", "hidden_units": [64], "non_lin": "tanh"},
}
PPO: dict[str, Any] = {
    "use": "ppo",
    "epoch_length": 5,
    "n_rollout_steps": 64,
    "batch_size": 128,
    "n_optimization_epochs": 4,
    "lr": 1e-3,
    "gamma": 0.95,
    "gae_lambda": 0.95,
    "entropy_coef": 0.01,
    "max_grad_norm": 0.5,
}
TASKS: dict[str, tuple[str, dict[str, dict[str, Any]], int]] = {
    "image": ("lava_gap", {"auto": {"use": "auto"}, "flatten": FLATTEN}, 40_000),
    "set": (
        "Foraging",
        {
            "auto": {"use": "auto"},
            "attention": {
                "use": "concat",
                "inputs": {
                    "embed": ["points"],
                    "look": ["embed", "points_mask"],
                    "pool": ["look", "points_mask"],
                },
                "blocks": {
                    "embed": {"use": "dense", "hidden_units": [64]},
                    "look": {"use": "self-attention-seq", "num_heads": 4},
                    "pool": {"use": "masked-global-pooling", "pooling": "max"},
                },
                "hidden": {"use": "dense", "hidden_units": [64], "non_lin": "tanh"},
            },
            "flatten": FLATTEN,
        },
        100_000,
    ),
    "graph": ("Distances", {"auto": {"use": "auto"}, "flatten": FLATTEN}, 100_000),
}


def learn(task: str, model: str, seed: int, n_steps: int | None, folder: Path) -> tuple[float, float]:
    """Last evaluation over 100 episodes, and the mean of all evaluations of the run."""
    env, models, budget = TASKS[task]
    n_epochs = (n_steps or budget) // (8 * PPO["n_rollout_steps"] * PPO["epoch_length"])
    data = {
        "name": f"{task}-{model}",
        "seed": seed,
        "env": {"use": f"perception_tasks:{env}"},
        "vector": {"n_envs": 8},
        "model": models[model],
        "trainer": {**PPO, "n_epochs": n_epochs},
        "evaluation": {"n_episodes": 100, "deterministic": True, "every_epochs": max(1, n_epochs // 4)},
        "checkpoint": {"every_epochs": n_epochs},
        "loggers": [{"use": "csv"}],
    }
    kernel = Kernel.installed()
    run_dir = folder / f"{task}-{model}-{seed}"
    train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=run_dir, verbosity=-1)
    rewards = [
        float(line.split(",")[-1])
        for line in (run_dir / "statistics/eval.csv").read_text().splitlines()
        if "BaseEnvEvents/reward/mean" in line
    ]
    return rewards[-1], statistics.mean(rewards)


def main() -> None:
    """Train every model of the chosen tasks with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--steps", type=int, help="environment steps a run, in place of the task's own budget")
    parser.add_argument("--out", type=Path, default=Path("runs/perception-learning"))
    arguments = parser.parse_args()
    rows = []
    for task in arguments.tasks:
        for model in arguments.models or TASKS[task][1]:
            results = []
            for seed in arguments.seeds:
                results.append(learn(task, model, seed, arguments.steps, arguments.out))
                print(f"{task} {model} seed {seed}: {results[-1][0]:.3f}", file=sys.stderr, flush=True)
            last = ", ".join(f"{result[0]:.2f}" for result in results)
            rows.append(f"| {task} | {model} | {last} | {statistics.mean(result[1] for result in results):.2f} |")
    print("| task | model | last evaluation, seed by seed | mean over the run |\n|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
