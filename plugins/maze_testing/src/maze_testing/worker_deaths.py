"""A part of `WorkerPoolSuite`: actors that end, hang or are replaced, in pools that can interrupt them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from maze_kernel.contracts.workers import ArraySpec, GroupOptions, RestartPolicy, WorkerPool
from maze_kernel.errors import WorkerError
from maze_testing.worker_actors import Probe, SlowToBuild
from maze_testing.worker_memory import assert_constants, needs_shared_memory, some_constants


class WorkerDeathsSuite:
    """What pools do about the dead and the late; `pool` is the fixture of `WorkerPoolSuite`."""

    interrupts: bool = True
    reports_exit_codes: bool = True

    def make_pool(self, count: int) -> WorkerPool:
        """A new pool of that many workers."""
        raise NotImplementedError

    def test_an_actor_that_exits_is_an_error_that_says_so(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 2)
        first, second = group.call(0, "exit"), group.call(0, "echo", 1)
        assert group.wait_any([first, second]) == [first, second]
        for future in (first, second, group.call(0, "echo", 2)):
            with pytest.raises(WorkerError, match=r"actor 0.*'exit'") as caught:
                future.result()
            assert caught.value.is_lost
            assert caught.value.process_exit_code == (7 if self.reports_exit_codes else None)
            assert "exited with code 7" in caught.value.what or not self.reports_exit_codes
        assert group.call(1, "echo", 3).result() == 3

    def test_an_actor_that_is_killed_took_its_call_with_it(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, GroupOptions(restart=RestartPolicy(max_restarts=1, backoff_seconds=0.01)))
        with pytest.raises(WorkerError, match="actor 0") as caught:
            group.call(0, "kill").result()
        assert caught.value.is_lost
        assert group.call(0, "echo", 1).result() == 1

    def test_an_actor_that_hangs_in_its_constructor_is_killed(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        with pytest.raises(WorkerError, match=r"'its constructor' within 0\.7 s") as caught:
            pool.spawn(partial(SlowToBuild, 3600.0), 1, GroupOptions(build_timeout_seconds=0.7))
        assert caught.value.is_lost
        assert "build_timeout_seconds" in str(caught.value.help)
        assert pool.spawn(Probe, 1).call(0, "echo", 1).result() == 1

    def test_a_constructor_may_take_longer_than_a_call(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(partial(SlowToBuild, 1.0), 1, GroupOptions(timeout_seconds=0.3, build_timeout_seconds=60.0))
        assert group.call(0, "echo", 1, timeout_seconds=60.0).result() == 1

    def test_an_actor_past_its_deadline_is_killed(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, GroupOptions(timeout_seconds=60))
        future = group.call(0, "sleep", 3600.0, timeout_seconds=0.3)
        with pytest.raises(WorkerError, match=r"did not answer 'sleep' within 0\.3 s") as caught:
            future.result()
        assert caught.value.cause == "timeout"
        assert caught.value.is_lost
        assert "in sleep" in str(caught.value.remote_traceback)

    def test_a_queue_of_calls_each_has_its_own_deadline(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, GroupOptions(timeout_seconds=2.0))
        futures = [group.call(0, "sleep", 0.9) for _ in range(4)]
        assert [future.result() for future in futures] == [0.9] * 4

    def test_waiting_less_than_the_deadline_leaves_the_actor_alone(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1)
        future = group.call(0, "sleep", 1.0)
        assert group.wait_any([future], timeout_seconds=0.05) == []
        with pytest.raises(WorkerError, match="still at work"):
            future.result(timeout_seconds=0.05)
        assert future.result() == 1.0

    def test_a_dead_actor_is_replaced_with_constants_and_weights(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        restart = RestartPolicy(max_restarts=2, backoff_seconds=0.05)
        group = pool.spawn(Probe, 2, GroupOptions(constants=some_constants(), restart=restart))
        group.broadcast(np.ones(2), 4)
        with pytest.raises(WorkerError):
            group.call(1, "exit").result()
        assert group.call(1, "weights").result() == ([1.0, 1.0], 4)
        assert_constants(group, 1, some_constants())
        assert [group.restarts(0), group.restarts(1)] == [0, 1]

    def test_a_dead_actor_is_replaced_with_arrays_and_weights(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        needs_shared_memory(pool)
        restart = RestartPolicy(max_restarts=2, backoff_seconds=0.05)
        group = pool.spawn(Probe, 2, GroupOptions(arrays={"a": ArraySpec(shape=(2,), dtype="int64")}, restart=restart))
        group.share({"added": ArraySpec(shape=(2,), dtype="int64")})
        group.broadcast(np.ones(2), 4)
        with pytest.raises(WorkerError):
            group.call(1, "exit").result()
        assert group.call(1, "weights").result() == ([1.0, 1.0], 4)
        group.call(1, "write", "a", 9).result()
        group.call(1, "write_added").result()
        assert (group.arrays["a"].tolist(), group.arrays["added"].tolist()) == ([0, 9], [0, 2])
        assert [group.restarts(0), group.restarts(1)] == [0, 1]

    def test_replacements_are_used_up(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, GroupOptions(restart=RestartPolicy(max_restarts=2, backoff_seconds=0.01)))
        for _ in range(3):
            with pytest.raises(WorkerError):
                group.call(0, "exit").result()
        assert group.restarts(0) == 2
        with pytest.raises(WorkerError, match="actor 0"):
            group.call(0, "echo", 1).result()

    def test_a_forgiven_actor_has_all_its_replacements_again(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, GroupOptions(restart=RestartPolicy(max_restarts=1, backoff_seconds=0.01)))
        for n_restarts in (1, 2, 3):
            with pytest.raises(WorkerError):
                group.call(0, "exit").result()
            assert group.call(0, "echo", 1).result() == 1
            assert group.restarts(0) == n_restarts
            group.forgive(0)
        for _ in range(2):
            with pytest.raises(WorkerError):
                group.call(0, "exit").result()
        with pytest.raises(WorkerError, match="actor 0"):
            group.call(0, "echo", 1).result()

    def test_close_does_not_wait_for_ever(self) -> None:
        self._needs_interrupts()
        pool = self.make_pool(1)
        group = pool.spawn(Probe, 1)
        future = group.call(0, "sleep", 3600.0)
        pool.close()
        with pytest.raises(WorkerError, match="closed"):
            future.result()

    def _needs_interrupts(self) -> None:
        if not self.interrupts:
            pytest.skip("this pool cannot interrupt an actor")
