"""`make bench`: every benchmark, a few rounds each; peers are installed first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

COMMANDS = [
    ["on_policy.py", "--work", "ppo-cartpole", "--compile"],
    ["on_policy.py", "--work", "a2c-cartpole", "--compile"],
    ["on_policy.py", "--work", "ppo-lunarlander", "--compile"],
    ["on_policy.py", "--work", "ppo-growth"],
    ["sac.py", "--compile"],
    ["vector_envs.py"],
    ["memory.py"],
    ["es.py", "--updates", "30"],
]


def main() -> None:
    """Install the peers and run every script."""
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
    constraints = ["--constraint", str(HERE.parent / "constraints.txt")]
    subprocess.run([*install, *constraints, "--requirement", str(HERE / "requirements.txt")], check=True)
    for command in COMMANDS:
        print(f"\n## {' '.join(command)}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / command[0]), *command[1:]], check=True)


if __name__ == "__main__":
    main()
