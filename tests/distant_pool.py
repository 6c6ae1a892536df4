"""Processes without shared memory, as on other machines: everything travels by value, and in parallel."""

from maze_kernel.contracts.workers import USUAL_GROUP
from maze_processes.pool import SubprocessPool
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.options import WorkersOptions


class DistantPool(SubprocessPool):
    def __init__(self, options: WorkersOptions):
        super().__init__(options)
        self.shares_memory = False

    def spawn(self, factory, n_actors, options=USUAL_GROUP):
        if options.arrays:
            _refuse(options.arrays)
        group = super().spawn(factory, n_actors, options)
        group.share = _refuse
        return group


def _refuse(arrays):
    raise no_shared_memory("the distant pool", arrays)
