"""One cluster of two nodes on this machine, for all tests of this folder; without Ray none of them runs."""

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
