"""What dies on a cluster, and what is said and done about it: processes, nodes, the head, the object store."""

import contextlib
import os
import signal

import numpy as np
import psutil
import pytest
import ray

from maze_kernel.contracts.workers import GroupOptions, RestartPolicy
from maze_kernel.errors import RequestError, WorkerError
from maze_ray.connection import connect
from maze_ray.pool import RayPool
from maze_testing.worker_actors import Probe

RESTART = RestartPolicy(max_restarts=2, backoff_seconds=0.05)


class _OnlyThere:
    def __reduce__(self):
        return _reject_elsewhere, (os.getpid(),)


def _reject_elsewhere(process):
    if os.getpid() != process:
        raise ImportError("no such module here")


class Placed(Probe):
    """Knows where it is."""

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def process(self):
        return os.getpid()

    def leave(self):
        raise SystemExit(5)

    def ones(self, n_bytes):
        return np.ones(n_bytes, np.uint8)

    def foreign(self):
        """An object that unpickles in this process alone."""
        return _OnlyThere()

    def load_weights(self, flat, version):
        self._weights = flat if flat.size < 10 else flat.sum(), version

    def weights(self):
        return self._weights


@pytest.fixture
def victim(cluster):
    """A third node, which tests end or freeze."""
    node = cluster.add_node(num_cpus=2, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    yield node
    with contextlib.suppress(AssertionError, KeyError, ValueError):
        cluster.remove_node(node, allow_graceful=False)


def processes_of(node):
    """The raylet of a node and everything it started."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [raylet, *raylet.children(recursive=True)]


def on_node(group, node):
    """Index of an actor on the node."""
    places = [future.result() for future in group.call_all("node")]
    assert node.node_id in places
    return places.index(node.node_id)


def test_a_killed_process_is_named_and_replaced(options):
    with RayPool(options()) as pool:
        group = pool.spawn(Placed, 2, GroupOptions(restart=RESTART))
        process = group.call(1, "process").result()
        assert group.process_id(1) == process
        future = group.call(1, "sleep", 3600.0)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(WorkerError, match=rf"actor 1 \(process {process} on node .* during 'sleep'") as caught:
            future.result()
        assert caught.value.cause == "killed"
        assert caught.value.process_exit_code is None
        assert group.call(1, "process").result() != process


def test_sys_exit_names_the_code_and_the_line(options):
    with RayPool(options()) as pool:
        future = pool.spawn(Placed, 1).call(0, "leave")
        with pytest.raises(WorkerError, match="exited with code 5 during 'leave'") as caught:
            future.result()
    assert (caught.value.cause, caught.value.process_exit_code) == ("exited", 5)
    assert "raise SystemExit(5)" in str(caught.value.remote_traceback)


def test_a_node_that_dies_is_lost_and_its_actors_go_elsewhere(options, victim):
    with RayPool(options(cpus_per_worker=1)) as pool:
        group = pool.spawn(Placed, 3, GroupOptions(restart=RESTART))
        group.broadcast(np.arange(3.0), 7)
        index = on_node(group, victim)
        future = group.call(index, "sleep", 3600.0)
        for process in processes_of(victim):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with pytest.raises(WorkerError, match=f"actor {index} .*node") as caught:
            future.result()
        assert caught.value.cause == "lost"
        assert caught.value.is_lost
        weights, version = group.call(index, "weights").result()
        assert (weights.tolist(), version) == ([0.0, 1.0, 2.0], 7)
        assert group.call(index, "node").result() != victim.node_id


@pytest.mark.slow
def test_a_frozen_node_is_left_when_the_deadline_passes(options, victim):
    with RayPool(options()) as pool:
        group = pool.spawn(Placed, 3, GroupOptions(restart=RESTART, timeout_seconds=60.0))
        index = on_node(group, victim)
        frozen = processes_of(victim)
        for process in frozen:
            process.suspend()
        try:
            future = group.call(index, "echo", 1, timeout_seconds=2.0)
            with pytest.raises(WorkerError, match="did not answer 'echo' within 2 s") as caught:
                future.result()
            assert caught.value.cause == "timeout"
            assert group.call(index, "echo", 2).result() == 2
            assert group.call(index, "node").result() != victim.node_id
        finally:
            for process in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.mark.slow
def test_work_goes_on_while_the_head_is_out_of_reach(options, cluster):
    server = psutil.Process(cluster.head_node.all_processes["gcs_server"][0].process.pid)
    with RayPool(options()) as pool:
        group = pool.spawn(Placed, 2)
        server.suspend()
        try:
            futures = [group.call(number % 2, "sleep", 0.5) for number in range(40)]
            assert [future.result() for future in futures] == [0.5] * 40
        finally:
            server.resume()
        assert pool.spawn(Placed, 1).call(0, "echo", 1).result() == 1


def test_answers_that_the_object_store_cannot_hold_arrive_all_the_same(options):
    with RayPool(options()) as pool:
        group = pool.spawn(Placed, 2)
        futures = [group.call(number % 2, "ones", 20_000_000) for number in range(12)]
        assert [int(future.result().sum()) for future in futures] == [20_000_000] * 12
        assert group.call(0, "ones", 200_000_000).result().size == 200_000_000
        group.broadcast(np.ones(12_000_000), 1)
        assert group.call(1, "weights").result() == (12_000_000.0, 1)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [({"count": 9}, "9 CPU"), ({"gpus_per_worker": 1.0}, "2 GPU"), ({"cpus_per_worker": 3}, "6 CPU")],
)
def test_what_does_not_fit_on_the_cluster_is_refused_at_once(options, wanted, message):
    chosen = options(build_timeout_seconds=5.0, **wanted)
    with RayPool(chosen) as pool, pytest.raises(RequestError, match="too small") as caught:
        pool.spawn(Probe, chosen.count)
    assert message in str(caught.value.expected)
    assert "on 2 nodes" in str(caught.value.received)


def test_processors_that_other_groups_hold_are_named(options):
    with RayPool(options()) as pool:
        pool.spawn(Probe, 3)
        with pytest.raises(RequestError, match="too small") as caught:
            pool.spawn(Probe, 2)
        assert "3 CPU held by other actors of this process" in str(caught.value.received)
        assert pool.spawn(Probe, 5, GroupOptions(light=True)).call(4, "echo", 1).result() == 1


def test_processors_that_others_hold_are_waited_for_until_the_deadline(options):
    @ray.remote(num_cpus=2)
    class Stranger:
        pass

    with RayPool(options(build_timeout_seconds=3.0)) as pool:
        connect(options())
        strangers = [Stranger.remote(), Stranger.remote()]
        for stranger in strangers:
            ray.get(stranger.__ray_ready__.remote())
        with pytest.raises(WorkerError, match="'its constructor' within 3 s") as caught:
            pool.spawn(Probe, 1)
        assert "0 CPU" in str(caught.value.received)
        for stranger in strangers:
            ray.kill(stranger)


def test_a_node_with_another_version_is_refused_by_name(options, monkeypatch):
    connection = connect(options())
    monkeypatch.setitem(connection.versions, "maze-kernel", "0.0.7")
    monkeypatch.setattr(connection, "_importable", {})
    with RayPool(options()) as pool, pytest.raises(RequestError, match=r"node \S+ \(.* has other versions") as caught:
        pool.spawn(Probe, 1)
    assert "maze-kernel: 0.0.7 here, 0.1.0 there" in str(caught.value.received)


def test_an_actor_on_a_node_that_nobody_asked_compares_versions_too(options, monkeypatch):
    connection = connect(options())
    with RayPool(options()) as pool:
        pool.spawn(Probe, 1)
        monkeypatch.setitem(connection.versions, "numpy", "0.0.7")
        with pytest.raises(RequestError, match="other versions") as caught:
            pool.spawn(Probe, 1)
    assert "numpy: 0.0.7 here" in str(caught.value.received)


def test_one_process_has_one_cluster(options):
    connect(options())
    with RayPool(options(address="192.0.2.1:6379")) as pool, pytest.raises(RequestError, match="stays so") as caught:
        pool.spawn(Probe, 1)
    assert "192.0.2.1:6379" in str(caught.value.received)


def test_an_answer_that_the_caller_cannot_read_is_an_error_and_the_actor_lives(options):
    with RayPool(options(count=1)) as pool:
        group = pool.spawn(Placed, 1)
        with pytest.raises(WorkerError, match="its answer cannot be read here"):
            group.call(0, "foreign").result()
        assert group.call(0, "echo", 1).result() == 1


@pytest.mark.parametrize("n_numbers", [10, 100_000])
def test_weights_constants_and_arguments_are_copied_at_once(options, n_numbers):
    with RayPool(options(count=1)) as pool:
        array = np.ones(n_numbers)
        group = pool.spawn(Placed, 2, GroupOptions(constants={"table": array}))
        group.broadcast(array, 1)
        futures = group.call_all("echo", array)
        array[:] = 0
        assert [future.result().sum() for future in futures] == [n_numbers] * 2
        weights, _ = group.call(0, "weights").result()
        assert np.sum(weights) == n_numbers
        assert group.constants["table"].sum() == n_numbers
        ((found, _, _),) = group.call(1, "constants").result().values()
        assert found.sum() == n_numbers


def test_arguments_of_a_call_that_waits_for_a_replacement_are_copied_at_once(options):
    restart = RestartPolicy(max_restarts=1, backoff_seconds=0.5)
    with RayPool(options(count=1)) as pool:
        group = pool.spawn(Placed, 1, GroupOptions(restart=restart))
        with pytest.raises(WorkerError):
            group.call(0, "kill").result()
        array = np.ones(100_000)
        waiting = group.call(0, "echo", array)
        array[:] = 0
        assert waiting.result().sum() == 100_000
