"""Promise 4: an environment that breaks, in whatever way and wherever, ends in an error that says so. No hang."""

import ctypes
import functools
import os
import signal
import time

import numpy as np
import pytest

from maze_kernel.errors import EnvError
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_testing.environments import Identity

# Covers the start of a process on a busy machine.
TIMEOUT_SECONDS = 8.0


def _break(how):
    if how == "raise":
        raise ValueError("broken on purpose")
    if how == "exit":
        os._exit(3)
    if how == "sys.exit":
        raise SystemExit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "deaf":
        # Neither interruptible nor willing to listen to polite signals.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


class Broken(Identity):
    """Works until the phase in which it breaks."""

    def __init__(self, phase, how):
        super().__init__()
        self._phase, self._how, self._steps = phase, how, 0
        if phase == "constructor":
            _break(how)

    def reset(self, *, seed=None, options=None):
        if self._phase == "reset":
            _break(self._how)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._steps += 1
        if self._phase == "step" and self._steps == 3:
            _break(self._how)
        return super().step(action)

    def close(self):
        if self._phase == "close":
            _break(self._how)


def _live(factories, max_restarts=0):
    """Build, reset, step and close; whatever goes wrong is raised by then."""
    vector_env = SubprocessVectorEnv(
        factories, 2, timeout_seconds=TIMEOUT_SECONDS, max_restarts=max_restarts, on_message=lambda _: None
    )
    error = None
    try:
        vector_env.reset([[10], [11], [12], [13]])
        for _ in range(9):
            vector_env.step({"0": {"action": np.zeros(4, np.int64)}})
    except EnvError as caught:
        error = caught
    try:
        vector_env.close()
    finally:
        if error is not None:
            raise error


CAUSES = {
    "raise": "ValueError: broken on purpose",
    "exit": "exited with code 3",
    "sys.exit": "exited with code 3",
    "segfault": "killed by SIGSEGV",
    "hang": "did not answer",
    "deaf": "did not answer",
}
QUICK = {("step", "hang"), ("constructor", "segfault"), ("reset", "raise"), ("close", "exit")}
MATRIX = [
    pytest.param(phase, how, marks=[] if (phase, how) in QUICK else pytest.mark.slow)
    for phase in ("constructor", "reset", "step", "close")
    for how in CAUSES
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("phase", "how"), MATRIX)
def test_a_broken_environment_ends_in_an_error_that_names_it(phase, how):
    factories = [Identity, Identity, Identity, functools.partial(Broken, phase, how)]
    with pytest.raises(EnvError, match=CAUSES[how]) as caught:
        _live(factories)
    owner = caught.value.owner
    assert owner.startswith("environment 3")
    text = str(caught.value)
    assert phase in text
    assert "process" in text
    if phase == "reset":
        assert "seed 13" in owner
    if phase == "step":
        assert "episode 0 (seed 13), step 3" in owner
    if how == "raise":
        assert 'raise ValueError("broken on purpose")' in text
    if how in ("segfault", "hang", "sys.exit"):
        assert "in _break" in text


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", ["exit", "segfault", "hang"])
@pytest.mark.parametrize("phase", ["constructor", "reset", "step"])
def test_replacements_that_break_as_well_end_in_an_error(phase, how):
    factories = [Identity, Identity, Identity, functools.partial(Broken, phase, how)]
    with pytest.raises(EnvError, match=CAUSES[how]):
        _live(factories, max_restarts=1)


class StopsTheProcess(Identity):
    """A process that is stopped is neither dead nor answering."""

    def step(self, action):
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().step(action)


@pytest.mark.timeout(60)
def test_a_stopped_process_is_killed():
    with pytest.raises(EnvError, match="did not answer 'step' within 8 s"):
        _live([Identity, Identity, Identity, StopsTheProcess])


class KilledFromOutside(Identity):
    """Dies between two calls."""

    def step(self, action):
        if os.fork() == 0:
            time.sleep(0.2)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        return super().step(action)


@pytest.mark.timeout(60)
def test_a_process_killed_between_two_calls_is_named_at_the_next():
    vector_env = SubprocessVectorEnv([Identity, KilledFromOutside], 2, timeout_seconds=5)
    vector_env.reset([[1], [2]])
    actions = {"0": {"action": np.zeros(2, np.int64)}}
    vector_env.step(actions)
    time.sleep(0.6)
    with pytest.raises(EnvError, match="killed by SIGKILL") as caught:
        vector_env.step(actions)
    assert "environment" in caught.value.owner
    vector_env.close()
