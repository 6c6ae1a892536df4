"""The conformance suite of worker pools: what every pool must do, as tests.

Subclass `WorkerPoolSuite` in a test file, set `make_pool`, and say with `interrupts` whether the pool can end an
actor from outside (and so keeps deadlines and replaces the dead), and with `reports_exit_codes` whether it can tell how
a process ended. Whether it works in parallel and shares memory and files the pool says itself.

    class TestMyPool(WorkerPoolSuite):
        interrupts = True

        def make_pool(self, count):
            return MyPool(MyOptions(count=count))
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maze_kernel.contracts.workers import ActorContext, ActorGroup, ArraySpec, RestartPolicy, WorkerPool
from maze_kernel.errors import EnvError, RequestError, WorkerError
from maze_runtime.workers.lanes import Lanes, lane_specs
from maze_testing.worker_actors import Closing, ClosingBadly, Probe, Puts, SlowToBuild, Unbuildable

_FOREIGN = """
class Actor:
    def __init__(self, context):
        pass

    def answer(self):
        return 42
"""


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

    def test_a_factory_from_a_file_that_is_not_on_the_path_travels_by_value(
        self, pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = tmp_path / "beside_the_experiment.py"
        source.write_text(_FOREIGN)
        spec = importlib.util.spec_from_file_location(source.stem, source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, source.stem, module)
        spec.loader.exec_module(module)
        assert pool.spawn(module.Actor, 1).call(0, "answer").result() == 42

    def test_light_actors_work_beside_others(self, pool: WorkerPool) -> None:
        heavy, light = pool.spawn(Probe, pool.n_workers), pool.spawn(Probe, 3, light=True)
        futures = [*light.call_all("index"), *heavy.call_all("index")]
        assert [future.result() for future in futures] == [(0, 3), (1, 3), (2, 3), (0, 2), (1, 2)]

    def test_large_arrays_arrive_whole_and_stay_as_they_are(self, pool: WorkerPool) -> None:
        group = pool.spawn(Probe, 1)
        square = np.arange(1_000_000.0).reshape(1000, 1000)
        sent = {"square": square, "few": [square[:3], np.float32(2)], "columns": square.T, "every second": square[::2]}
        first = group.call(0, "echo", sent).result()
        for number in range(3):
            group.call(0, "echo", np.full(1_000_000, number)).result()
        _assert_same(first, sent)
        kept = [arguments for (arguments,) in group.call(0, "calls").result()]
        _assert_same(kept[0], sent)
        assert [(array[0], array[-1]) for array in kept[1:]] == [(0, 0), (1, 1), (2, 2)]

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
        answer = group.call(0, "calls").result()[0][0]
        if answer.flags.writeable:
            answer[:] = 2
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

    def test_constants_can_be_read_and_not_written(self, pool: WorkerPool) -> None:
        constants = _constants()
        expected = {name: array.copy() for name, array in constants.items()}
        group = pool.spawn(Probe, 2, constants=constants)
        constants["table"][:] = 0  # they were copied
        for index in range(2):
            _assert_constants(group, index, expected)
        with pytest.raises(WorkerError, match="read-only"):
            group.call(1, "write_constant", "table").result()
        _assert_constants(group, 0, expected)
        assert group.arrays == {}
        assert list(group.constants) == list(expected)
        for name, array in group.constants.items():
            assert (array.dtype, array.flags.writeable) == (expected[name].dtype, False)
            np.testing.assert_array_equal(array, expected[name])

    def test_constants_lie_beside_shared_arrays(self, pool: WorkerPool) -> None:
        self._needs_shared_memory(pool)
        specs = {"a": ArraySpec(shape=(2,), dtype="float32")}
        group = pool.spawn(Probe, 2, arrays=specs, constants=_constants())
        group.share({"added": ArraySpec(shape=(2000,), dtype="int64")})
        group.arrays["a"][:] = group.arrays["added"][:] = -1
        assert set(group.arrays) == {"a", "added"}
        for index in range(2):
            _assert_constants(group, index, _constants())

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
        assert not caught.value.is_lost
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
        assert not caught.value.is_lost
        assert "raise LookupError" in str(caught.value.remote_traceback)
        assert pool.spawn(Probe, 1).call(0, "echo", 1).result() == 1

    def test_close_lets_the_actors_close(self, pool: WorkerPool, tmp_path: Path) -> None:
        group = pool.spawn(partial(Closing, tmp_path), 2)
        group.close()
        group.close()
        if pool.shares_files:
            assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
        with pytest.raises(WorkerError, match="closed"):
            group.call(0, "echo", 1)

    def test_actors_reach_the_files_of_their_caller_where_the_pool_says_so(
        self, pool: WorkerPool, tmp_path: Path
    ) -> None:
        if not pool.shares_files:
            pytest.skip("this pool has no files in common with its caller")
        (tmp_path / "source").write_text("some text")
        pool.spawn(Probe, 1).call(0, "copy_file", tmp_path / "source", tmp_path / "target").result()
        assert (tmp_path / "target").read_text() == "some text"

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
            assert caught.value.is_lost
            assert caught.value.process_exit_code == (7 if self.reports_exit_codes else None)
            assert "exited with code 7" in caught.value.what or not self.reports_exit_codes
        assert group.call(1, "echo", 3).result() == 3

    def test_an_actor_that_is_killed_took_its_call_with_it(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, restart=RestartPolicy(max_restarts=1, backoff_seconds=0.01))
        with pytest.raises(WorkerError, match="actor 0") as caught:
            group.call(0, "kill").result()
        assert caught.value.is_lost
        assert group.call(0, "echo", 1).result() == 1

    def test_an_actor_that_hangs_in_its_constructor_is_killed(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        with pytest.raises(WorkerError, match=r"'its constructor' within 0\.7 s") as caught:
            pool.spawn(partial(SlowToBuild, 3600.0), 1, build_timeout_seconds=0.7)
        assert caught.value.is_lost
        assert "build_timeout_seconds" in str(caught.value.help)
        assert pool.spawn(Probe, 1).call(0, "echo", 1).result() == 1

    def test_a_constructor_may_take_longer_than_a_call(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(partial(SlowToBuild, 1.0), 1, timeout_seconds=0.3, build_timeout_seconds=60.0)
        assert group.call(0, "echo", 1, timeout_seconds=60.0).result() == 1

    def test_an_actor_past_its_deadline_is_killed(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        group = pool.spawn(Probe, 1, timeout_seconds=60)
        future = group.call(0, "sleep", 3600.0, timeout_seconds=0.3)
        with pytest.raises(WorkerError, match=r"did not answer 'sleep' within 0\.3 s") as caught:
            future.result()
        assert caught.value.cause == "timeout"
        assert caught.value.is_lost
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

    def test_a_dead_actor_is_replaced_with_constants_and_weights(self, pool: WorkerPool) -> None:
        self._needs_interrupts()
        restart = RestartPolicy(max_restarts=2, backoff_seconds=0.05)
        group = pool.spawn(Probe, 2, constants=_constants(), restart=restart)
        group.broadcast(np.ones(2), 4)
        with pytest.raises(WorkerError):
            group.call(1, "exit").result()
        assert group.call(1, "weights").result() == ([1.0, 1.0], 4)
        _assert_constants(group, 1, _constants())
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


def _constants() -> dict[str, np.ndarray]:
    """Of several shapes, types and memory orders."""
    return {
        "table": np.arange(60_000, dtype=np.float32).reshape(2, 30_000),
        "columns": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "flag": np.array([True, False]),
        "number": np.array(7),
        "empty": np.zeros((0, 3), np.uint8),
    }


def _assert_constants(group: ActorGroup, index: int, expected: Mapping[str, np.ndarray]) -> None:
    found = group.call(index, "constants").result()
    assert list(found) == list(expected)
    for name, (array, dtype, is_writeable) in found.items():
        assert not is_writeable
        assert (array.shape, dtype) == (expected[name].shape, expected[name].dtype.str)
        np.testing.assert_array_equal(array, expected[name])


def _assert_same(found: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    assert list(found) == list(sent)
    for name in ("square", "columns", "every second"):
        np.testing.assert_array_equal(found[name], sent[name])
    np.testing.assert_array_equal(found["few"][0], sent["few"][0])
    assert found["few"][1] == sent["few"][1]
