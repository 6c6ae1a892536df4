"""`make bench`: every benchmark, a few rounds each; peers are installed first."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
PEER = HERE.parent / ".peers"
"""An environment for the peers that do not run beside ours."""

PEERS_APART = ("imitation==1.0.1", "numpy<2")
CONSTRAINTS = ["--constraint", str(HERE.parent / "constraints.txt")]
"""Name the build of torch for the CPU; by itself pip takes one with gigabytes of libraries for GPUs."""

COMMANDS = [
    ["kinds.py", "--compile", "--memory"],
    ["on_policy.py", "--work", "ppo-cartpole", "--compile"],
    ["on_policy.py", "--work", "a2c-cartpole", "--compile"],
    ["on_policy.py", "--work", "ppo-lunarlander", "--compile"],
    ["on_policy.py", "--work", "ppo-growth"],
    ["dqn.py", "--compile", "--all"],
    ["bc.py", "--compile", "--peer", str(PEER / "bin" / "python")],
    ["vector_envs.py"],
    ["transport.py"],
    ["memory.py"],
    ["recording.py"],
    ["es.py", "--updates", "30"],
    ["impala.py"],
    ["log_stats.py", "--rounds", "40"],
    ["scaling.py"],
    ["blocks.py"],
]


def main() -> None:
    """Install the peers and run every script."""
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *CONSTRAINTS, "--requirement", str(HERE / "requirements.txt")], check=True)
    if not PEER.exists():
        venv.create(PEER, with_pip=True)
    subprocess.run([str(PEER / "bin" / "pip"), "install", "--quiet", *CONSTRAINTS, *PEERS_APART], check=True)
    for command in COMMANDS:
        print(f"\n## {' '.join(command)}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / command[0]), *command[1:]], check=True)


if __name__ == "__main__":
    main()
