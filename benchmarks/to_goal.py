"""Wall time from the command to the goal, start-up, evaluation and compiling included.

    python benchmarks/to_goal.py --seeds 0 1 2
    python benchmarks/to_goal.py --work lunarlander
    python benchmarks/to_goal.py --work halfcheetah --seeds 0 1

PPO of our examples beside Stable-Baselines3's with rl-zoo3's settings. Both evaluate the same number of episodes after
the same number of environment steps, and end when the mean reaches the goal. Each run is a process of its own; one
torch thread.
`maze` is the command on the path.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

HERE = Path(__file__).parent


@attrs.frozen(kw_only=True)
class Goal:
    """A reward to reach with one of our examples."""

    env: str
    example: str
    goal: float
    every: int
    """Environment steps between evaluations, an epoch of the example."""
    n_episodes: int = 20
    """Of an evaluation."""


GOALS = {
    "cartpole": Goal(env="CartPole-v1", example="cartpole_ppo.toml", goal=475.0, every=2048),
    "lunarlander": Goal(env="LunarLander-v3", example="lunarlander_ppo.toml", goal=200.0, every=32_768),
    "halfcheetah": Goal(
        env="HalfCheetah-v5",
        example="environments/halfcheetah_ppo.toml",
        goal=2000.0,
        every=8192,
        n_episodes=5,
    ),
}


def ours(goal: Goal, seed: int, folder: Path) -> list[str]:
    """The command that trains ours."""
    values = {
        "seed": seed,
        "evaluation.n_episodes": goal.n_episodes,
        "evaluation.every_epochs": 1,
        "callbacks": f'[{{use="stop-at",value={goal.goal}}}]',
        "loggers": '[{use="csv"}]',
    }
    settings = [part for path, value in values.items() for part in ("--set", f"{path}={value}")]
    example = HERE.parent / "examples" / goal.example
    return ["maze", "train", str(example), "--out", str(folder), *settings]


def zoo(goal: Goal, seed: int) -> list[str]:
    """The command that trains Stable-Baselines3's."""
    options = {"--goal": goal.goal, "--seed": seed, "--every": goal.every, "--episodes": goal.n_episodes}
    return [
        sys.executable,
        str(HERE / "peers/zoo_ppo.py"),
        goal.env,
        *(str(x) for pair in options.items() for x in pair),
    ]


def seconds(command: list[str]) -> tuple[float, str]:
    """Wall time of a command that must succeed, and what it printed."""
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start, done.stdout


def best_and_steps(folder: Path) -> tuple[float, int]:
    """The best evaluation of a run and the environment steps it took."""
    with (folder / "statistics/eval.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["tag"] == "BaseEnvEvents/reward/mean"]
    return max(float(row["value"]) for row in rows), int(rows[-1]["env_steps"])


def main() -> None:
    """Run both in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=GOALS, default="cartpole")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    goal, ratios = GOALS[arguments.work], []
    print(f"| seed | ours to {goal.goal:g}, s | steps | best | rl-zoo3's settings, s | its end | ours ÷ it |")
    print("|---|---|---|---|---|---|---|")
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            mine, _ = seconds(ours(goal, seed, Path(folder) / "run"))
            best, steps = best_and_steps(Path(folder) / "run")
        theirs, printed = seconds(zoo(goal, seed))
        end = printed.split("STEPS")[-1].strip().replace(" BEST ", " steps, best ")
        ratios.append(mine / theirs)
        print(f"| {seed} | {mine:.1f} | {steps} | {best:.4g} | {theirs:.1f} | {end} | {ratios[-1]:.2f} |", flush=True)
    print(f"\nmedian of {len(ratios)} seeds: {statistics.median(ratios):.2f} of the time")


if __name__ == "__main__":
    main()
