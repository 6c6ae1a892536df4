"""Memory that a process shares with its workers.

It has no name: an anonymous file is created, mapped, and its descriptor handed to each worker. The kernel frees
it with the last process that maps it, so nothing can be left in /dev/shm, whatever was killed and when.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Mapping

import attrs
import numpy as np

from maze_kernel.contracts.workers import ArraySpec

_ALIGNMENT = 64


def create_descriptor(name: str, n_bytes: int = 0) -> int:
    """An anonymous file of zeros; returns its descriptor, which the caller closes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, n_bytes)
    return descriptor


@attrs.frozen
class ArrayLayout:
    """Where each array lies in one block of shared memory: name to (offset in bytes, specification)."""

    places: dict[str, tuple[int, ArraySpec]]
    n_bytes: int
    start: int = 0
    """Where the block begins in its file, in bytes; a multiple of the page size."""

    @property
    def end(self) -> int:
        """Where the next block may begin."""
        page = mmap.ALLOCATIONGRANULARITY
        return self.start + -(-self.n_bytes // page) * page

    @classmethod
    def of(cls, arrays: Mapping[str, ArraySpec], start: int = 0) -> ArrayLayout:
        """Arrays one behind the other, each on a cache line of its own; `start` is the end of the block before."""
        places = {}
        offset = 0
        for name, spec in arrays.items():
            places[name] = (offset, spec)
            size = math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
            offset += -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        return cls(places, offset, start)

    def map(self, descriptor: int, *, writable: bool = True) -> dict[str, np.ndarray]:
        """The arrays in the file behind `descriptor`; they keep the mapping alive."""
        if not self.places:
            return {}
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        memory = mmap.mmap(descriptor, self.n_bytes, access=access, offset=self.start)
        return {
            name: np.ndarray(spec.shape, spec.dtype, buffer=memory, offset=offset)
            for name, (offset, spec) in self.places.items()
        }


_HEADER_BYTES = 4096
_SIZE, _FIRST_SLOT = 0, 1
_DTYPE = slice(64, 96)


class WeightsBoard:
    """One flat buffer from one writer to many readers, with versions.

    Two slots are written in turn. A slot's version is cleared while it is written, so a reader that is overtaken
    notices and takes the newer one.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None
        self._next_slot = 0

    def write(self, flat: np.ndarray, version: int) -> None:
        """Publish `flat` (any shape, C order) as `version` (1 or more)."""
        flat = np.ascontiguousarray(flat).reshape(-1)
        header = self._open(flat)
        slot = self._next_slot
        header[_FIRST_SLOT + slot] = 0
        self._slot(slot, flat.dtype, flat.size)[:] = flat
        header[_FIRST_SLOT + slot] = version
        self._next_slot = 1 - slot

    def read(self, version: int) -> tuple[np.ndarray, int]:
        """A copy of `version`, or of the newest where that is overwritten; and which version it is."""
        self._map()
        assert self._memory is not None
        while True:
            header = np.frombuffer(self._memory, np.uint64, 3)
            stamps = [int(header[_FIRST_SLOT]), int(header[_FIRST_SLOT + 1])]
            slot = stamps.index(version) if version in stamps else int(np.argmax(stamps))
            dtype = np.dtype(bytes(self._memory[_DTYPE]).rstrip(b"\0").decode())
            copy = self._slot(slot, dtype, int(header[_SIZE])).copy()
            if stamps[slot] and int(header[_FIRST_SLOT + slot]) == stamps[slot]:
                return copy, stamps[slot]

    def newest(self) -> int:
        """The newest version that is complete; 0 before the first one is."""
        if os.fstat(self._descriptor).st_size == 0:
            return 0
        self._map()
        assert self._memory is not None
        return int(np.frombuffer(self._memory, np.uint64, 3)[_FIRST_SLOT:].max())

    def close(self) -> None:
        """Let go of the memory."""
        self._memory = None

    def _open(self, flat: np.ndarray) -> np.ndarray:
        n_bytes = _HEADER_BYTES + 2 * flat.nbytes
        if os.fstat(self._descriptor).st_size < n_bytes:
            os.ftruncate(self._descriptor, n_bytes)
        self._map()
        assert self._memory is not None
        header = np.frombuffer(self._memory, np.uint64, 3)
        name = flat.dtype.str.encode().ljust(32, b"\0")
        if int(header[_SIZE]) != flat.size or self._memory[_DTYPE] != name:
            header[:] = 0
            self._memory[_DTYPE] = name
            header[_SIZE] = flat.size
        return header

    def _map(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if self._memory is None or len(self._memory) != size:
            self._memory = mmap.mmap(self._descriptor, size)

    def _slot(self, slot: int, dtype: np.dtype, size: int) -> np.ndarray:
        assert self._memory is not None
        return np.ndarray((size,), dtype, buffer=self._memory, offset=_HEADER_BYTES + slot * size * dtype.itemsize)
