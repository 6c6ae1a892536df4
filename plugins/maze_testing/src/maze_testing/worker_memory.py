"""A part of `WorkerPoolSuite`: arrays, constants and weights of worker pools, whether memory is shared or not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from maze_kernel.contracts.workers import ActorGroup, ArraySpec, GroupOptions, WorkerPool
from maze_kernel.errors import RequestError, WorkerError
from maze_runtime.workers.lanes import Lanes, lane_specs
from maze_testing.worker_actors import Probe, Puts


class WorkerMemorySuite:
    """What actors and their caller share; `pool` is the fixture of `WorkerPoolSuite`."""

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
        group = pool.spawn(Puts, 2, GroupOptions(arrays=specs if pool.shares_memory else {}))
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
            pool.spawn(Probe, 1, GroupOptions(arrays=specs))
        assert "the table" in str(caught.value.received)
        group = pool.spawn(Probe, 1)
        with pytest.raises(RequestError):
            group.share(specs)
        assert group.arrays == {}
        assert group.call(0, "echo", 1).result() == 1

    def test_shared_arrays_are_one_memory(self, pool: WorkerPool) -> None:
        needs_shared_memory(pool)
        specs = {"a": ArraySpec(shape=(2,), dtype="float32"), "b": ArraySpec(shape=(2, 3), dtype="int64")}
        group = pool.spawn(Probe, 2, GroupOptions(arrays=specs))
        assert {name: (array.shape, array.dtype.name) for name, array in group.arrays.items()} == {
            "a": ((2,), "float32"),
            "b": ((2, 3), "int64"),
        }
        group.call(1, "write", "a", 2.5).result()
        assert group.arrays["a"].tolist() == [0.0, 2.5]
        group.arrays["b"][:] = 4
        assert group.call(0, "read", "b").result() == [[4, 4, 4], [4, 4, 4]]

    def test_arrays_can_be_added_later(self, pool: WorkerPool) -> None:
        needs_shared_memory(pool)
        group = pool.spawn(Probe, 2, GroupOptions(arrays={"a": ArraySpec(shape=(2,), dtype="float32")}))
        group.share({"added": ArraySpec(shape=(2,), dtype="int64")})
        for future in group.call_all("write_added"):
            future.result()
        assert group.arrays["added"].tolist() == [1, 2]
        assert group.arrays["a"].tolist() == [0.0, 0.0]

    def test_constants_can_be_read_and_not_written(self, pool: WorkerPool) -> None:
        constants = some_constants()
        expected = {name: array.copy() for name, array in constants.items()}
        group = pool.spawn(Probe, 2, GroupOptions(constants=constants))
        constants["table"][:] = 0  # they were copied
        for index in range(2):
            assert_constants(group, index, expected)
        with pytest.raises(WorkerError, match="read-only"):
            group.call(1, "write_constant", "table").result()
        assert_constants(group, 0, expected)
        assert group.arrays == {}
        assert list(group.constants) == list(expected)
        for name, array in group.constants.items():
            assert (array.dtype, array.flags.writeable) == (expected[name].dtype, False)
            np.testing.assert_array_equal(array, expected[name])

    def test_constants_lie_beside_shared_arrays(self, pool: WorkerPool) -> None:
        needs_shared_memory(pool)
        specs = {"a": ArraySpec(shape=(2,), dtype="float32")}
        group = pool.spawn(Probe, 2, GroupOptions(arrays=specs, constants=some_constants()))
        group.share({"added": ArraySpec(shape=(2000,), dtype="int64")})
        group.arrays["a"][:] = group.arrays["added"][:] = -1
        assert set(group.arrays) == {"a", "added"}
        for index in range(2):
            assert_constants(group, index, some_constants())

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
        group = pool.spawn(Probe, 1, GroupOptions(newest_weights=True))
        assert group.call(0, "weights").result() is None
        group.broadcast(np.ones(2), 1)
        busy, waiting = group.call(0, "weights_after", 1.0), group.call(0, "weights")
        group.broadcast(np.full(2, 2.0), 2)
        assert busy.result()[1] in (1, 2)
        newest = ([2.0, 2.0], 2) if pool.is_parallel else ([1.0, 1.0], 1)
        assert waiting.result() == newest
        assert group.call(0, "weights").result() == ([2.0, 2.0], 2)


def needs_shared_memory(pool: WorkerPool) -> None:
    """Skip the test where the pool has none."""
    if not pool.shares_memory:
        pytest.skip("this pool has no shared memory")


def some_constants() -> dict[str, np.ndarray]:
    """Of several shapes, types and memory orders."""
    return {
        "table": np.arange(60_000, dtype=np.float32).reshape(2, 30_000),
        "columns": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "flag": np.array([True, False]),
        "number": np.array(7),
        "empty": np.zeros((0, 3), np.uint8),
    }


def assert_constants(group: ActorGroup, index: int, expected: Mapping[str, np.ndarray]) -> None:
    """An actor has these constants, and cannot write them."""
    found = group.call(index, "constants").result()
    assert list(found) == list(expected)
    for name, (array, dtype, is_writeable) in found.items():
        assert not is_writeable
        assert (array.shape, dtype) == (expected[name].shape, expected[name].dtype.str)
        np.testing.assert_array_equal(array, expected[name])
