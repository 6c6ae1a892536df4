"""One cluster of two nodes on this machine, for all tests of this folder; without Ray none of them runs."""

import contextlib
import importlib.util

import pytest

HAS_RAY = importlib.util.find_spec("ray") is not None
STORE_BYTES = 80_000_000


class WithoutRay(pytest.Module):
    """A file of tests that is not even imported."""

    def collect(self):
        pytest.skip("Ray is not installed: make test-ray", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    """Files named `test_ray_*` need Ray, the others do without."""
    if HAS_RAY or not module_path.name.startswith("test_ray_"):
        return None
    return WithoutRay.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def cluster():
    """Two nodes of two processors each, and small object stores."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "object_store_memory": STORE_BYTES, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def options(cluster):
    """`options(count=2, ...)`: of a pool on the cluster, whose nodes have the files of this machine in common."""
    from maze_ray.options import RayOptions

    def make(**how):
        return RayOptions(**{"address": cluster.address, "grace_seconds": 1.0, "shared_files": True, **how})

    return make


@pytest.fixture
def on_ray(cluster):
    """The `[workers]` table of the cluster."""
    return lambda **how: {"use": "ray", "address": cluster.address, "shared_files": True, **how}


@pytest.fixture
def groups(monkeypatch):
    """The groups of actors that are spawned."""
    from maze_ray.pool import RayPool

    found = []
    spawn = RayPool.spawn

    def record(pool, *arguments, **how):
        found.append(spawn(pool, *arguments, **how))
        return found[-1]

    monkeypatch.setattr(RayPool, "spawn", record)
    return found


@pytest.fixture
def end_node(cluster, groups):
    """Kills the node of an actor of the newest group, which is not the head; another one takes its place later.

    Without the actor's index it is the first one that is not on the head.
    """
    import psutil

    nodes = []

    def end(index=None):
        actors = groups[-1]._actors if index is None else [groups[-1]._actors[index]]
        homes = {actor._node[1] for actor in actors}
        node = next(
            node for node in cluster.list_all_nodes() if node.node_id in homes and node is not cluster.head_node
        )
        nodes.append(node)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for process in [raylet, *raylet.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES)
    cluster.wait_for_nodes()
    yield end
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)
