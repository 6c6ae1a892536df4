"""Promises 4, 5, 6 and 12 for trainers whose workers play by themselves: ES and IMPALA."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import psutil
import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import MazeError
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly
from maze_testing.environments import Identity

TAG = "MAZE_TEST_TAG"
SECONDS_ALLOWED = 5.0
# The deadline covers the start of the fork server and its imports on a busy machine.
PRELOAD = ["maze_es.population", "maze_impala.actor"]
WORKERS = {"use": "subprocess", "count": 2, "preload": PRELOAD, "timeout_seconds": 60.0, "grace_seconds": 1.0}
TRAINERS = {
    "es": {"use": "es", "n_rollouts_per_update": 8, "noise": {"use": "seeded"}},
    "impala": {"use": "impala", "epoch_length": 2, "num_actors": 4, "n_rollout_steps": 8, "max_actor_restarts": 0},
}
CAUSES = {"raise": "broken on purpose", "exit": "code 3", "segfault": "SIGSEGV|signal 11", "hang": "did not answer"}


def _break(how):
    if how == "raise":
        raise ValueError("broken on purpose")
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    while how == "hang":
        time.sleep(3600)


class Broken(Identity):
    """Breaks in one phase, or gives a reward that is no number."""

    def __init__(self, *, phase, how, home):
        super().__init__()
        self._phase, self._how, self._is_at_work = phase, how, os.getpid() != home
        self._check("constructor")

    def _check(self, phase):
        if self._is_at_work and self._phase == phase:
            _break(self._how)

    def reset(self, *, seed=None, options=None):
        self._check("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._check("step")
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if self._how == "nan" else reward, *rest


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


def _trainer(kernel, name, env, **tables):
    data = {"name": "test", "env": env, "vector": {"n_envs": 2}, "trainer": TRAINERS[name], **tables}
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    return assembly.make_trainer(assembly.trainer_context())


def _train(trainer):
    trainer.start_segment(0)
    trainer.train_epoch()


def _build_and_train(*arguments, **tables):
    trainer = _trainer(*arguments, **tables)
    try:
        _train(trainer)
    finally:
        trainer.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("phase", ["constructor", "reset", "step"])
@pytest.mark.parametrize("how", CAUSES)
def test_an_environment_that_breaks_in_a_worker_stops_the_training_with_the_cause(kernel, name, phase, how):
    env = {"use": f"{__name__}:Broken", "phase": phase, "how": how, "home": os.getpid()}
    with pytest.raises(MazeError, match=CAUSES[how]):  # a constructor breaks when the spaces are read, in a worker too
        _build_and_train(kernel, name, env, workers=WORKERS)
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_reward_that_is_no_number_stops_the_training_and_is_located(kernel, name):
    env = {"use": f"{__name__}:Broken", "phase": "", "how": "nan", "home": os.getpid()}
    trainer = _trainer(kernel, name, env)
    try:
        with pytest.raises(MazeError, match="reward") as failure:
            _train(trainer)
    finally:
        trainer.close()
    assert "seed" in str(failure.value)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_memory_of_an_evolution_strategy_stays_flat(kernel):
    """Resident memory, descriptors, threads and children after a warm-up, learner and workers."""
    workers = {"use": "subprocess", "count": 2}
    trainer = _trainer(kernel, "es", {"use": "gym", "id": "CartPole-v1"}, workers=workers)
    me = psutil.Process()

    def measure(n_epochs):
        for epoch in range(n_epochs):
            trainer.start_segment(epoch)
            trainer.train_epoch()
        family = [me, *me.children(recursive=True)]
        memory = [process.memory_info().rss for process in family]
        return len(family), sum(process.num_fds() for process in family), me.num_threads(), np.array(memory)

    try:
        before, after = measure(30), measure(60)
    finally:
        trainer.close()
    assert after[:3] == before[:3]
    assert (after[3] < before[3] * 1.03).all()


def _tagged(tag):
    """Living processes whose environment holds the tag."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", TRAINERS)
def test_a_killed_training_leaves_no_process(name, tmp_path):
    run, tag = tmp_path / "run", uuid.uuid4().hex
    example = Path(__file__).parents[2] / "examples" / f"cartpole_{name}.toml"
    workers = 'workers={use="subprocess", count=2}'
    arguments = ["train", str(example), "--out", str(run), "--set", workers]
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())", *arguments],
        env={**os.environ, TAG: tag},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not (run / "statistics" / "train.csv").exists():
            time.sleep(0.2)
            assert process.poll() is None
        assert len(_tagged(tag)) > 2
    finally:
        process.send_signal(signal.SIGKILL)
    process.wait(SECONDS_ALLOWED)
    deadline = time.monotonic() + SECONDS_ALLOWED
    while (left := _tagged(tag)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for survivor in left:
        survivor.kill()
    assert not left
