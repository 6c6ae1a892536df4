"""The pool passes the conformance suite on a cluster of two nodes."""

import pytest

from maze_ray.pool import RayPool
from maze_testing.workers import WorkerPoolSuite


class TestRayPool(WorkerPoolSuite):
    reports_exit_codes = False

    @pytest.fixture(autouse=True)
    def _options(self, options):
        self.options = options

    def make_pool(self, count):
        return RayPool(self.options(count=count))
