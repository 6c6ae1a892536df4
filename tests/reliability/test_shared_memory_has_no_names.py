"""Promise 5, shared memory: what a run maps has no name, so nothing stays, whoever is killed and when.

An ES run once was thought to have left segments in /dev/shm. Other programs write there, too, while tests run, so
what is looked at is not the folder but what the processes of the run map and hold open.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc"),
]

ENVIRONMENT = """
import time
import gymnasium

class Slow(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(0.1)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, self.np_random.random() < 0.2, False, {}
"""
RUNS = {
    "es": '[workers]\nuse = "subprocess"\ncount = 2\n[trainer]\nuse = "es"\nn_rollouts_per_update = 8\n'
    'noise = { use = "table", size = 1_000_000 }\n',
    "impala": '[workers]\nuse = "subprocess"\ncount = 2\n[trainer]\nuse = "impala"\nnum_actors = 4\n'
    "actors_batch_size = 2\nn_rollout_steps = 8\nepoch_length = 2\n",
    "vector": '[vector]\nn_envs = 4\nmode = "subprocess"\nn_processes = 2\n[trainer]\nuse = "ppo"\n'
    "n_rollout_steps = 8\nepoch_length = 2\nbatch_size = 32\n",
}
COMMAND = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]
TAG = "MAZE_TEST_TAG"


def tagged(tag):
    """Processes whose environment holds the tag."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and tag.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def held(process):
    """Paths that a process maps or holds open."""
    paths = []
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        paths += [line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6]
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                paths.append(os.readlink(descriptor))
    return paths


class Watched:
    """A run whose processes are looked at all the time."""

    def __init__(self, folder, kind):
        (folder / "slow_reset.py").write_text(ENVIRONMENT)
        text = f'name = "x"\n[env]\nuse = "slow_reset:Slow"\n{RUNS[kind]}[evaluation]\nn_episodes = 1\n'
        (folder / "x.toml").write_text(text + '[[loggers]]\nuse = "csv"\n')
        self.tag = uuid.uuid4().hex
        self.named, self.anonymous = set(), set()
        self.process = subprocess.Popen(
            [*COMMAND, "train", "x.toml", "--out", "run"],
            cwd=folder,
            env={**os.environ, TAG: self.tag, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def look(self):
        """The processes of the run besides the main one."""
        processes = tagged(self.tag)
        for process in processes:
            paths = held(process)
            self.named |= {path for path in paths if path.startswith("/dev/shm/")}
            self.anonymous |= {path for path in paths if path.startswith("/memfd:")}
        return [process for process in processes if process != self.process.pid]

    def until(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition(self.look()):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("killed", "moment"),
    [
        ("driver", "the first reset"),
        ("driver", "training"),
        ("worker", "training"),
        ("both", "the first reset"),
    ],
)
@pytest.mark.parametrize("kind", RUNS)
def test_nothing_is_left_whoever_is_killed(tmp_path, kind, moment, killed):
    run = Watched(tmp_path, kind)
    try:
        run.until(lambda workers: len(workers) >= 2 and run.anonymous, 120)
        if moment == "training":
            run.until(lambda _: (tmp_path / "run" / "checkpoints" / "last").exists(), 120)
        workers = run.look()
        targets = {"driver": [run.process.pid], "worker": workers[-1:], "both": [run.process.pid, *workers]}[killed]
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
        if killed == "worker":  # the run may go on with another one
            time.sleep(1.0)
            run.look()
            run.process.send_signal(signal.SIGKILL)
        run.process.wait(timeout=30)
        run.until(lambda workers: not workers, 15)
    finally:
        for process in [run.process.pid, *tagged(run.tag)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        run.process.wait(timeout=30)
    assert run.anonymous, "no memory was shared, so nothing was tried"
    assert run.named == set()
