"""What recording costs: the same episodes with and without, and how fast they are read again.

    python benchmarks/recording.py [--rounds 5]

Each round plays the same episodes in this process with a random policy (CartPole-v1) or the greedy one (cutting-2d,
structured, with MazeStates, MazeActions and events), once without and once with recording.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from interleaved import compare
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_trajectories.dataset import TrajectoryDataset

WORKS = {
    "CartPole-v1": ({"use": "gym", "id": "CartPole-v1"}, "random", 200),
    "cutting-2d structured": ({"use": "cutting-2d", "version": "masked"}, "cutting-2d-greedy", 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for name, (env, policy, n_episodes) in WORKS.items():
        print(f"\n### {name}, {n_episodes} episodes a round\n")
        compare_recording(env, policy, n_episodes, rounds)


def compare_recording(env: dict, policy: str, n_episodes: int, rounds: int) -> None:
    kernel = Kernel.installed()
    loaded = experiment_from_mapping({"name": "bench", "env": env, "trainer": {"use": "ppo"}}, kernel=kernel)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "recording"

        def play(record_dir: Path | None) -> float:
            shutil.rmtree(target, ignore_errors=True)
            options = RolloutOptions(n_episodes=n_episodes, n_workers=1, record_dir=record_dir)
            start = time.perf_counter()
            result = roll_out(loaded, kernel, options, policy=policy)
            return sum(episode.length for episode in result.episodes) / (time.perf_counter() - start)

        def read() -> float:
            start = time.perf_counter()
            n_steps = sum(episode.info.n_env_steps for episode in TrajectoryDataset.open(target))
            return n_steps / (time.perf_counter() - start)

        play(target)
        n_bytes = sum(file.stat().st_size for file in target.iterdir())
        n_steps = sum(info.n_env_steps for info in TrajectoryDataset.open(target).infos())
        compare({"without": lambda: play(None), "recorded": lambda: play(target), "read again": read}, rounds)
        print(f"\n{n_bytes / n_steps:,.0f} bytes a step on disk")


if __name__ == "__main__":
    main()
