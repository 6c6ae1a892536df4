"""One cluster of two nodes on this machine, for all tests of this folder; without Ray none of them runs."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray-venv")

STORE_BYTES = 80_000_000


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
