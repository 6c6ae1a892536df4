"""The conformance suite of worker pools: what every pool must do, as tests.

Subclass `WorkerPoolSuite` in a test file, set `make_pool`, and say with `interrupts` whether the pool can end an
actor from outside (and so keeps deadlines and replaces the dead), and with `reports_exit_codes` whether it can tell how
a process ended. Whether it works in parallel and shares memory the pool says itself.

    class TestMyPool(WorkerPoolSuite):
        interrupts = True

        def make_pool(self, count):
            return MyPool(MyOptions(count=count))
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maze_kernel.contracts.workers import ActorContext, ArraySpec, RestartPolicy, WorkerPool
from maze_kernel.errors import EnvError, RequestError, WorkerError
from maze_runtime.workers.lanes import Lanes, lane_specs
from maze_testing.worker_actors import Closing, ClosingBadly, Probe, Puts, Unbuildable


class WorkerPoolSuite:
    """Tests every worker pool passes."""

    interrupts: bool = True
    reports_exit_codes: bool = True

    def make_pool(self, count: int) -> WorkerPool:
        """A new pool of that many workers."""
        raise NotImplementedError

    @pytest.fixture
    def pool(self) -> Any:
        with self.make_pool(2) as pool:
            yield pool

    def test_says_how_many_workers_it_has(self, pool: WorkerPool) -> None:
        assert pool.n_workers == 2

    def test_each_actor_knows_which_one_it_is(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 3)
        assert [future.result() for future in group.call_all("index")] == [(0, 3), (1, 3), (2, 3)]

    def test_values_come_back_as_they_were_sent(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1)
        values = (None, 3, 2.5, "text", {"a": [1, (2,)]}, b"\0")
        for value in values:
            assert group.call(0, "echo", value).result() == value
        array = np.arange(200_000.0)
        np.testing.assert_array_equal(group.call(0, "echo", array).result(), array)

    def test_a_closure_can_be_a_factory(self, pool: WorkerPool) -> None:
        factor = 3

        class Local:
            def __init__(self, context: ActorContext) -> None:
                self._index = context.index

            def product(self) -> int:
                return self._index * factor

        group = pool.spawn(Local, 2)
        assert [future.result() for future in group.call_all("product")] == [0, 3]

    def test_calls_on_an_actor_run_in_order(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 2)
        futures = [group.call(number % 2, "echo", number) for number in range(40)]
        assert [future.result() for future in reversed(futures)] == list(reversed(range(40)))
        assert group.call(0, "calls").result() == [(number,) for number in range(0, 40, 2)]

    def test_many_large_messages_in_both_directions_do_not_block(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 2, timeout_seconds=60)
        array = np.zeros(400_000)
        futures = [group.call(number % 2, "echo", array) for number in range(8)]
        assert [future.result().size for future in futures] == [400_000] * 8

    def test_wait_any_returns_what_is_done_in_the_order_given(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 2)
        futures = [group.call(0, "echo", 0), group.call(1, "echo", 1)]
        seen = []
        while futures:
            done = group.wait_any(futures)
            assert done
            assert done == [future for future in futures if future in done]
            seen += [future.result() for future in done]
            futures = [future for future in futures if future not in done]
        assert sorted(seen) == [0, 1]

    def test_wait_any_on_nothing_returns_at_once(self, pool: WorkerPool) -> None:
        assert pool.spawn(Probe, 1).wait_any([]) == []

    def test_only_a_parallel_pool_leaves_calls_running(self, pool: WorkerPool) -> None:
        future = pool.spawn(Probe, 1).call(0, "sleep", 1.0)
        assert future.done() is not pool.is_parallel
        assert future.result() == 1.0

    def test_arrays_that_are_changed_after_a_call_stay_with_their_owner(self, pool: WorkerPool) -> None:
        if pool.shares_memory and not pool.is_parallel:
            pytest.skip("actors of this process see the very objects of their caller")
        group = pool.spawn(Probe, 1)
        array = np.zeros(3)
        group.call(0, "echo", array).result()
        array[:] = 1
        group.call(0, "calls").result()[0][0][:] = 2
        assert group.call(0, "calls").result()[0][0].tolist() == [0.0] * 3

    def test_lanes_carry_arrays_whether_memory_is_shared_or_not(self, pool: WorkerPool) -> None:
        specs = lane_specs([{"column": np.zeros((2, 3), np.float32)}] * 2, n_slots=2)
        group = pool.spawn(Puts, 2, arrays=specs if pool.shares_memory else None)
        lanes = Lanes(2, group.arrays)
        calls = [(worker, slot) for slot in range(2) for worker in range(2)]
        futures = [group.call(worker, "put", slot, worker + 10 * slot) for worker, slot in calls]
        answers = [future.result() for future in futures]
        assert [answer is None for answer in answers] == [pool.shares_memory] * 4
        for (worker, slot), answer in zip(calls, answers, strict=True):
            column = lanes.read(worker, slot, answer)["column"]
            assert column.dtype == np.float32
            assert column.tolist() == [[worker] * 3, [worker + 10 * slot] * 3]

    def test_arrays_are_refused_by_name_where_memory_is_not_shared(self, pool: WorkerPool) -> None:
        if pool.shares_memory:
            pytest.skip("this pool has shared memory")
        specs = {"the table": ArraySpec(shape=(2,), dtype="float32")}
        with pytest.raises(RequestError) as caught:
            pool.spawn(Probe, 1, arrays=specs)
        assert "the table" in str(caught.value.received)
        group = pool.spawn(Probe, 1)
        with pytest.raises(RequestError):
            group.share(specs)
        assert group.arrays == {}
        assert group.call(0, "echo", 1).result() == 1

    def test_shared_arrays_are_one_memory(self, pool: WorkerPool) -> None:
        self._needs_shared_memory(pool)
        specs = {"a": ArraySpec(shape=(2,), dtype="float32"), "b": ArraySpec(shape=(2, 3), dtype="int64")}
        group = pool.spawn(Probe, 2, arrays=specs)
        assert {name: (array.shape, array.dtype.name) for name, array in group.arrays.items()} == {
            "a": ((2,), "float32"),
            "b": ((2, 3), "int64"),
        }
        group.call(1, "write", "a", 2.5).result()
        assert group.arrays["a"].tolist() == [0.0, 2.5]
        group.arrays["b"][:] = 4
        assert group.call(0, "read", "b").result() == [[4, 4, 4], [4, 4, 4]]

    def test_arrays_can_be_added_later(self, pool: WorkerPool) -> None:
        self._needs_shared_memory(pool)
        group = pool.spawn(Probe, 2, arrays={"a": ArraySpec(shape=(2,), dtype="float32")})
        group.share({"added": ArraySpec(shape=(2,), dtype="int64")})
        for future in group.call_all("write_added"):
            future.result()
        assert group.arrays["added"].tolist() == [1, 2]
        assert group.arrays["a"].tolist() == [0.0, 0.0]

    def test_weights_arrive_before_the_next_call(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 2)
        assert group.call(0, "weights").result() is None
        flat = np.arange(4, dtype=np.float32)
        for version in (1, 2, 5):
            group.broadcast(flat * version, version)
            flat_of_caller = (flat * version).tolist()
            assert [f.result() for f in group.call_all("weights")] == [(flat_of_caller, version)] * 2
        group.broadcast(np.ones(7), 6)
        assert group.call(1, "weights").result() == ([1.0] * 7, 6)

    def test_the_weights_are_copied_at_once(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1)
        flat = np.ones(3)
        group.broadcast(flat, 1)
        flat[:] = 0
        assert group.call(0, "weights").result() == ([1.0] * 3, 1)

    def test_an_old_version_of_the_weights_is_refused(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1)
        group.broadcast(np.ones(1), 3)
        with pytest.raises(ValueError, match="version 3 does not follow 3"):
            group.broadcast(np.ones(1), 3)

    def test_waiting_calls_can_ask_for_the_newest_weights(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1, newest_weights=True)
        assert group.call(0, "weights").result() is None
        group.broadcast(np.ones(2), 1)
        busy, waiting = group.call(0, "weights_after", 1.0), group.call(0, "weights")
        group.broadcast(np.full(2, 2.0), 2)
        assert busy.result()[1] in (1, 2)
        newest = ([2.0, 2.0], 2) if pool.is_parallel else ([1.0, 1.0], 1)
        assert waiting.result() == newest
        assert group.call(0, "weights").result() == ([2.0, 2.0], 2)

    def test_an_exception_names_actor_method_and_traceback(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 2)
        future = group.call(1, "fail")
        with pytest.raises(WorkerError, match=r"actor 1.*ValueError in 'fail': as told") as caught:
            future.result()
        assert caught.value.cause == "raised"
        assert caught.value.actor_index == 1
        assert 'raise ValueError("as told")' in str(caught.value.remote_traceback)

    def test_an_actor_that_raised_goes_on(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1)
        failed, following = group.call(0, "fail"), group.call(0, "echo", 1)
        assert following.result() == 1
        with pytest.raises(WorkerError):
            failed.result()
        assert group.restarts(0) == 0

    def test_an_error_of_maze_stays_what_it_is(self, pool: WorkerPool) -> None:
        with pytest.raises(EnvError) as caught:
            pool.spawn(Probe, 1).call(0, "fail_by_name").result()
        assert caught.value.owner == "environment 7"

    def test_a_method_that_is_not_there_is_an_error(self, pool: WorkerPool) -> None:
        with pytest.raises(WorkerError, match="no_such_method"):
            pool.spawn(Probe, 1).call(0, "no_such_method").result()

    def test_a_constructor_that_raises_is_an_error_of_spawn(self, pool: WorkerPool) -> None:
        with pytest.raises(WorkerError, match=r"LookupError.*no licence for 0") as caught:
            pool.spawn(Unbuildable, 1)
        assert "raise LookupError" in str(caught.value.remote_traceback)
        assert pool.spawn(Probe, 1).call(0, "echo", 1).result() == 1

    def test_close_lets_the_actors_close(self, pool: WorkerPool, tmp_path: Path) -> None:
        group = pool.spawn(partial(Closing, tmp_path), 2)
        group.close()
        group.close()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
        with pytest.raises(WorkerError, match="closed"):
            group.call(0, "echo", 1)

    def test_a_close_that_raises_is_reported_after_all_are_closed(self, pool: WorkerPool) -> None:
        group = pool.spawn(ClosingBadly, 2)
        with pytest.raises(WorkerError, match="the file is gone"):
            group.close()

    def test_two_groups_live_side_by_side(self, pool: WorkerPool) -> None:
        first, second = pool.spawn(Probe, 1), pool.spawn(Probe, 2)
        futures = [first.call(0, "echo", "a"), second.call(1, "echo", "b")]
        assert [future.result() for future in futures] == ["a", "b"]
        first.close()
        assert second.call(0, "echo", "c").result() == "c"

    def test_an_error_on_the_way_out_does_not_hide_the_first_one(self) -> None:
        def fail_inside() -> None:
            with self.make_pool(1) as pool:
                pool.spawn(ClosingBadly, 1)
                raise KeyError("first")

        with pytest.raises(KeyError):
            fail_inside()

    # Pools that can interrupt an actor

    def test_an_actor_that_exits_is_an_error_that_says_so(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 2)
        first, second = group.call(0, "exit"), group.call(0, "echo", 1)
        assert group.wait_any([first, second]) == [first, second]
        for future in (first, second, group.call(0, "echo", 2)):
            with pytest.raises(WorkerError, match=r"actor 0.*'exit'") as caught:
                future.result()
            assert caught.value.process_exit_code == (7 if self.reports_exit_codes else None)
            assert "exited with code 7" in caught.value.what or not self.reports_exit_codes
        assert group.call(1, "echo", 3).result() == 3

    def test_an_actor_past_its_deadline_is_killed(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, timeout_seconds=60)
        future = group.call(0, "sleep", 3600.0, timeout_seconds=0.3)
        with pytest.raises(WorkerError, match=r"did not answer 'sleep' within 0\.3 s") as caught:
            future.result()
        assert caught.value.cause == "timeout"
        assert "in sleep" in str(caught.value.remote_traceback)

    def test_a_queue_of_calls_each_has_its_own_deadline(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, timeout_seconds=2.0)
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

    def test_a_dead_actor_is_replaced_with_weights(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 2, restart=RestartPolicy(max_restarts=2, backoff_seconds=0.05))
        group.broadcast(np.ones(2), 4)
        with pytest.raises(WorkerError):
            group.call(1, "exit").result()
        assert group.call(1, "weights").result() == ([1.0, 1.0], 4)
        assert [group.restarts(0), group.restarts(1)] == [0, 1]

    def test_a_dead_actor_is_replaced_with_arrays_and_weights(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        self._needs_shared_memory(pool)
        restart = RestartPolicy(max_restarts=2, backoff_seconds=0.05)
        group = pool.spawn(Probe, 2, arrays={"a": ArraySpec(shape=(2,), dtype="int64")}, restart=restart)
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
        group = pool.spawn(Probe, 1, restart=RestartPolicy(max_restarts=2, backoff_seconds=0.01))
        for _ in range(3):
            with pytest.raises(WorkerError):
                group.call(0, "exit").result()
        assert group.restarts(0) == 2
        with pytest.raises(WorkerError, match="actor 0"):
            group.call(0, "echo", 1).result()

    def test_a_forgiven_actor_has_all_its_replacements_again(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, restart=RestartPolicy(max_restarts=1, backoff_seconds=0.01))
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

    def _needs_shared_memory(self, pool: WorkerPool) -> None:
        if not pool.shares_memory:
            pytest.skip("this pool has no shared memory")

    def _needs_interrupts(self) -> None:
        if not self.interrupts:
            pytest.skip("this pool cannot interrupt an actor")
