"""Trains the three cutting-2D experiments and draws raw pieces an episode against environment steps.

`python docs/draw_cutting_curves.py RUNS docs/tutorial/cutting2d.svg --seeds 0 1 2` trains what is missing below RUNS;
runs that are there are only read.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib
import numpy as np

from maze_kernel.config import load_experiment
from maze_kernel.loader import Kernel
from maze_runtime.training.train import train

EXAMPLES = Path(__file__).parents[1] / "examples"
COLOURS = {"flat": "#868e96", "structured": "#1c7ed6", "masked": "#d6336c"}
OPTIMUM = 31
RAW_PIECES = "InventoryEvents/piece_replenished/mean_episode_total"


def run_of(folder: Path, version: str, seed: int, settings: list[str]) -> Path:
    """The run of one version and seed, trained if it is not there yet."""
    run = folder / f"{version}-{seed}"
    if not (run / "statistics" / "eval.csv").exists():
        kernel = Kernel.installed()
        overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', *settings]
        loaded = load_experiment(EXAMPLES / f"cutting2d_{version}.toml", overrides=overrides, kernel=kernel)
        result = train(loaded, kernel, run_dir=run, verbosity=-1)
        print(
            f"{version}, seed {seed}: best return {result.best_metric:.1f} after {result.env_steps:,} steps", flush=True
        )
    return run


def curve(run: Path) -> dict[int, tuple[float, float]]:
    """Environment steps to (return, raw pieces) of the evaluations."""
    found: dict[int, dict[str, float]] = {}
    with open(run / "statistics" / "eval.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(int(float(row["env_steps"])), {})[row["tag"]] = float(row["value"])
    return {
        steps: (values["BaseEnvEvents/reward/mean"], values.get(RAW_PIECES, float("nan")))
        for steps, values in sorted(found.items())
    }


def draw(curves: dict[str, list[dict[int, tuple[float, float]]]], path: Path) -> None:
    """Mean and range over seeds, returns above and raw pieces below."""
    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "maze"
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharex=True)
    for version, runs in curves.items():
        steps = sorted(set.intersection(*(set(run) for run in runs)))
        values = np.array([[run[step] for step in steps] for run in runs])
        for part, axis in enumerate(axes):
            label = f"{version} ({len(runs)} seeds)"
            axis.plot(steps, values[:, :, part].mean(axis=0), color=COLOURS[version], label=label)
            low, high = values[:, :, part].min(axis=0), values[:, :, part].max(axis=0)
            axis.fill_between(steps, low, high, color=COLOURS[version], alpha=0.2, linewidth=0)
    axes[0].set(title="return (invalid actions cost 2)", xlabel="environment steps")
    axes[1].set(title="raw pieces an episode", xlabel="environment steps")
    axes[1].axhline(OPTIMUM, color="#212529", linestyle=":", label=f"optimum {OPTIMUM}")
    for axis in axes:
        axis.grid(alpha=0.3)
    axes[1].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Parse the arguments, train and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("figure", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--versions", nargs="+", default=list(COLOURS), choices=list(COLOURS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    arguments = parser.parse_args()
    curves = {
        version: [curve(run_of(arguments.runs, version, seed, arguments.set)) for seed in arguments.seeds]
        for version in arguments.versions
    }
    draw(curves, arguments.figure)
    for version, runs in curves.items():
        best = [max(run.values()) for run in runs]
        print(f"{version}: best return and its raw pieces, seed by seed: {best}")


if __name__ == "__main__":
    main()
