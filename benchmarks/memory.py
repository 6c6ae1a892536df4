"""Peak resident memory of a CartPole PPO run, ours and Stable-Baselines3's, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

OURS = """
from maze_runtime.context import RunContext
context = RunContext(env="CartPole-v1", trainer="ppo", silent=True, run_dir=RUN_DIR,
                     overrides={"trainer.n_epochs": 2, "trainer.epoch_length": 10, "trainer.n_rollout_steps": 128})
context.train()
"""

PEER = """
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8), n_steps=128, device="cpu").learn(20 * 8 * 128)
"""

REPORT = "\nimport resource\nprint('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"


def peak_mebibytes(code: str) -> float:
    """Peak resident memory of a Python process that runs `code`, MiB."""
    done = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=True)
    return int(done.stdout.split("PEAK")[-1]) / 1024


def main() -> None:
    """Measure both and print the ratio."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ours = peak_mebibytes(f"RUN_DIR = {folder + '/run'!r}\n" + OURS)
    peer = peak_mebibytes(PEER)
    print(f"| peak memory | MiB | ÷ stable-baselines3 |\n|---|---|---|\n| stable-baselines3 | {peer:.0f} | 1.00 |")
    print(f"| maze | {ours:.0f} | {ours / peer:.2f} |")


if __name__ == "__main__":
    main()
