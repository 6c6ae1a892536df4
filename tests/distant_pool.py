"""Processes without shared memory, as on other machines: everything travels by value, and in parallel."""

from maze_processes.pool import SubprocessPool
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.options import WorkersOptions


class DistantPool(SubprocessPool):
    def __init__(self, options: WorkersOptions):
        super().__init__(options)
        self.shares_memory = False

    def spawn(self, *args, arrays=None, **how):
        if arrays:
            _refuse(arrays)
        group = super().spawn(*args, **how)
        group.share = _refuse
        return group


def _refuse(arrays):
    raise no_shared_memory("the distant pool", arrays)
