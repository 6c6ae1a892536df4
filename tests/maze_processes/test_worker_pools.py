"""The first-party pools, and pools without shared memory, pass the conformance suite.

What only the subprocess pool has is tested below.
"""

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from distant_pool import DistantPool

from maze_kernel.contracts.workers import ArraySpec, GroupOptions
from maze_kernel.errors import MazeWarning, RequestError, WorkerError
from maze_processes.pool import SubprocessPool
from maze_runtime.workers.inline import InlinePool
from maze_runtime.workers.options import WorkersOptions
from maze_testing.by_value_pool import ByValuePool
from maze_testing.worker_actors import Probe, SlowToBuild
from maze_testing.workers import WorkerPoolSuite


class TestInlinePool(WorkerPoolSuite):
    interrupts = False

    def make_pool(self, count):
        return InlinePool(WorkersOptions(count=count))


class TestByValuePool(WorkerPoolSuite):
    interrupts = False

    def make_pool(self, count):
        return ByValuePool(WorkersOptions(count=count))


class TestDistantPool(WorkerPoolSuite):
    def make_pool(self, count):
        return DistantPool(WorkersOptions(count=count, preload=(), grace_seconds=1.0))


class TestForkServerPool(WorkerPoolSuite):
    def make_pool(self, count):
        return SubprocessPool(WorkersOptions(count=count, preload=(), grace_seconds=1.0))


@pytest.mark.slow
class TestSpawnPool(WorkerPoolSuite):
    def make_pool(self, count):
        return SubprocessPool(WorkersOptions(count=count, start_method="spawn", grace_seconds=1.0))


class Inspector:
    """Tells about the process it lives in."""

    def __init__(self, context):
        pass

    def facts(self):
        import torch

        return {
            "process": os.getpid(),
            "threads": torch.get_num_threads(),
            "variable": os.environ["OMP_NUM_THREADS"],
            "name": __name__,
        }

    def crash(self):
        import ctypes

        ctypes.string_at(0)

    def leave(self):
        sys.exit(5)

    def unsendable(self):
        return threading.Lock()


def _facts(**options):
    with SubprocessPool(WorkersOptions(**options)) as pool:
        return [future.result() for future in pool.spawn(Inspector, 2).call_all("facts")]


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_each_actor_has_a_process_and_one_torch_thread(start_method):
    facts = _facts(start_method=start_method)
    assert len({os.getpid(), *(fact["process"] for fact in facts)}) == 3
    assert [(fact["threads"], fact["variable"]) for fact in facts] == [(1, "1")] * 2


def test_a_preloaded_module_with_threads_is_never_forked(tmp_path, monkeypatch):
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with SubprocessPool(WorkersOptions(preload=("starts_a_thread", "no_such_module"))) as pool:
        group = pool.spawn(Probe, 1)
        command = Path(f"/proc/{group.process_id(0)}/cmdline").read_bytes()
    assert b"run_spawned" in command


def test_a_segmentation_fault_names_the_signal_and_the_line():
    with SubprocessPool() as pool:
        future = pool.spawn(Inspector, 1).call(0, "crash")
        with pytest.raises(WorkerError, match="was killed by SIGSEGV during 'crash'") as caught:
            future.result()
    assert caught.value.process_exit_code == -11
    assert "in crash" in str(caught.value.remote_traceback)


def test_sys_exit_names_the_code_and_the_line():
    with SubprocessPool() as pool:
        future = pool.spawn(Inspector, 1).call(0, "leave")
        with pytest.raises(WorkerError, match="exited with code 5 during 'leave'") as caught:
            future.result()
    assert "sys.exit(5)" in str(caught.value.remote_traceback)


def test_an_answer_that_cannot_travel_is_an_error_and_the_actor_goes_on():
    with SubprocessPool() as pool:
        group = pool.spawn(Inspector, 1)
        with pytest.raises(WorkerError, match="pickle"):
            group.call(0, "unsendable").result()
        assert group.call(0, "facts").result()["threads"] == 1


def test_a_factory_that_cannot_travel_is_refused_in_words():
    lock = threading.Lock()
    with SubprocessPool() as pool, pytest.raises(RequestError, match=r"cannot be sent to its process.*lock"):
        pool.spawn(lambda context: lock, 1)


def test_shared_memory_has_no_name():
    before = set(os.listdir("/dev/shm"))
    with SubprocessPool() as pool:
        group = pool.spawn(Probe, 1, GroupOptions(arrays={"a": ArraySpec(shape=(1000,), dtype="float64")}))
        group.broadcast(np.ones(1000), 1)
        group.call(0, "weights").result()
        assert set(os.listdir("/dev/shm")) == before


def test_groups_leave_no_descriptor_or_process_behind():
    def count():
        return len(os.listdir("/proc/self/fd"))

    with SubprocessPool() as pool:
        pool.spawn(Probe, 1).close()
        before = count()
        for _ in range(5):
            group = pool.spawn(Probe, 2)
            group.broadcast(np.ones(10), 1)
            process_ids = [group.process_id(index) for index in range(2)]
            group.close()
            assert not any(Path(f"/proc/{process_id}").exists() for process_id in process_ids)
        assert count() == before


def test_a_supervisor_that_is_killed_is_an_error_and_the_next_group_works():
    with SubprocessPool() as pool:
        group = pool.spawn(Probe, 1)
        supervisor = int(Path(f"/proc/{group.process_id(0)}/stat").read_text().rsplit(")", 1)[1].split()[1])
        future = group.call(0, "sleep", 3600.0)
        os.kill(supervisor, 9)
        with pytest.raises(WorkerError, match="SIGKILL"):
            future.result()
        group.close()
        assert pool.spawn(Probe, 1).call(0, "echo", 1).result() == 1


def test_a_constant_that_is_not_of_numbers_is_refused_by_name():
    with SubprocessPool() as pool, pytest.raises(RequestError, match="'names'"):
        pool.spawn(Probe, 1, GroupOptions(constants={"names": np.array(["a", None], object)}))


def test_the_options_give_constructions_a_deadline_of_their_own():
    options = WorkersOptions(timeout_seconds=60.0, build_timeout_seconds=0.5)
    with SubprocessPool(options) as pool, pytest.raises(WorkerError, match=r"'its constructor' within 0\.5 s"):
        pool.spawn(partial(SlowToBuild, 3600.0), 1)
    with SubprocessPool(WorkersOptions(timeout_seconds=0.6)) as pool:
        assert (pool.timeout_seconds, pool.build_timeout_seconds) == (0.6, 0.6)
        with pytest.raises(WorkerError, match=r"'its constructor' within 0\.6 s"):
            pool.spawn(partial(SlowToBuild, 3600.0), 1)


class Generous(Probe):
    """Gives more than a socket holds."""

    def give(self):
        return np.zeros(20_000_000)


@pytest.mark.parametrize(("sent", "cause"), [(signal.SIGKILL, "killed"), (signal.SIGSTOP, "timeout")])
def test_an_actor_that_dies_or_stops_in_the_middle_of_its_answer_is_replaced(sent, cause):
    with SubprocessPool(WorkersOptions(preload=(), max_restarts=1, backoff_seconds=0.01)) as pool:
        group = pool.spawn(Generous, 1)
        future = group.call(0, "give", timeout_seconds=3.0)
        actor = group._actors[0]
        assert actor.channel.has_arrived(60_000)
        assert actor.channel.receive() == []
        assert actor.channel.is_midway
        os.kill(group.process_id(0), sent)
        with pytest.raises(WorkerError, match="'give'") as caught:
            future.result()
        assert (caught.value.cause, caught.value.is_lost) == (cause, True)
        assert group.call(0, "give").result().size == 20_000_000


def test_a_death_between_calls_is_warned_of():
    """No call fails by which its caller would know."""
    with SubprocessPool(WorkersOptions(preload=(), count=2, max_restarts=1, backoff_seconds=0.01)) as pool:
        group = pool.spawn(Probe, 2)
        os.kill(group.process_id(1), signal.SIGKILL)
        with pytest.warns(MazeWarning, match=r"actor 1 \(process \d+\) was killed by SIGKILL and is replaced"):
            _work_until_replaced(group, 1)
        assert group.call(1, "echo", 2).result() == 2


def _work_until_replaced(group, actor):
    while not group.restarts(actor):
        group.call(0, "sleep", 0.1).result()
