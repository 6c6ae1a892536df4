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

from maze_kernel.contracts.workers import ActorContext, GroupOptions, WorkerPool
from maze_kernel.errors import EnvError, WorkerError
from maze_testing.worker_actors import Closing, ClosingBadly, Probe, Unbuildable
from maze_testing.worker_deaths import WorkerDeathsSuite
from maze_testing.worker_memory import WorkerMemorySuite

_FOREIGN = """
class Actor:
    def __init__(self, context):
        pass

    def answer(self):
        return 42
"""


class WorkerPoolSuite(WorkerMemorySuite, WorkerDeathsSuite):
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
        heavy, light = pool.spawn(Probe, pool.n_workers), pool.spawn(Probe, 3, GroupOptions(light=True))
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
        group = pool.spawn(Probe, 2, GroupOptions(timeout_seconds=60))
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


def _assert_same(found: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    assert list(found) == list(sent)
    for name in ("square", "columns", "every second"):
        np.testing.assert_array_equal(found[name], sent[name])
    np.testing.assert_array_equal(found["few"][0], sent["few"][0])
    assert found["few"][1] == sent["few"][1]
