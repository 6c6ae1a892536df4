"""Run by test_no_orphans.py: steps environments in worker processes until it is stopped from outside."""

import functools
import signal
import subprocess
import sys
import time

import numpy as np

from maze_processes.pool import SubprocessPool
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.workers.options import WorkersOptions
from maze_testing.environments import Identity


class Env(Identity):
    """An environment that never returns from a step, or that has a process of its own, if asked."""

    def __init__(self, kind):
        super().__init__()
        self._kind = kind
        if kind == "own-process":
            self._simulator = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])

    def step(self, action):
        if self._kind == "stuck":
            time.sleep(3600)
        return super().step(action)


def main(kind, start_method):
    """Say "ready" when the environments are being stepped."""
    # A shell starts background jobs with SIGINT ignored, which everything below them inherits.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pool = SubprocessPool(WorkersOptions(start_method=start_method))
    vector_env = SubprocessVectorEnv([functools.partial(Env, kind)] * 4, 2, pool, timeout_seconds=None)
    vector_env.reset([[number] for number in range(4)])
    print("ready", flush=True)
    while True:
        vector_env.step({"0": {"action": np.zeros(4, np.int64)}})


if __name__ == "__main__":
    main(*sys.argv[1:])
