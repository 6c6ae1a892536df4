"""Lanes: how the arrays of an answer travel from an actor to its caller.

Where the pool has shared memory, an actor leaves its arrays in a slot of it and only says so; elsewhere they are part
of the answer. Either way there are as many slots as answers that may wait, so a caller that asks for free slots only
never lets an actor run ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maze_kernel.contracts.workers import ArraySpec
from maze_kernel.errors import RequestError

Columns = dict[str, np.ndarray]
"""Arrays by name."""

_PREFIX = "lane"


def lane_specs(columns: Sequence[Mapping[str, np.ndarray]], n_slots: int) -> dict[str, ArraySpec]:
    """The shared arrays of the lanes of all actors.

    Args:
        columns: of each actor, arrays of the shape and type of those it will put.
        n_slots: of each actor.

    >>> lane_specs([{"reward": np.zeros((3, 2))}], n_slots=4)
    {'lane/0/reward': ArraySpec(shape=(4, 3, 2), dtype='<f8')}
    """
    return {
        f"{_PREFIX}/{worker}/{name}": ArraySpec(shape=(n_slots, *array.shape), dtype=array.dtype.str)
        for worker, own in enumerate(columns)
        for name, array in own.items()
    }


class Lane:
    """An actor's end of its lane.

    Args:
        worker: index of the actor.
        arrays: those of `lane_specs`, among others; without them arrays travel inside the answers.
    """

    def __init__(self, worker: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._shared = _of_worker(worker, arrays)

    def put(self, slot: int, columns: Mapping[str, np.ndarray]) -> Columns | None:
        """Leave arrays in a slot; returns what the answer has to carry, None where memory is shared."""
        if not self._shared:
            return dict(columns)
        for name, array in columns.items():
            self._shared[name][slot] = array
        return None


class Lanes:
    """The caller's end of the lanes of n actors.

    Args:
        n_workers: n.
        arrays: of the group.
    """

    def __init__(self, n_workers: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._shared = [_of_worker(worker, arrays) for worker in range(n_workers)]

    def read(self, worker: int, slot: int, answer: Mapping[str, np.ndarray] | None) -> Columns:
        """The arrays that an actor put.

        Args:
            answer: what `Lane.put` returned.

        Returns:
            Arrays that stay as they are until the actor puts others into this slot.
        """
        if answer is not None:
            return dict(answer)
        return {name: array[slot] for name, array in self._shared[worker].items()}


def _of_worker(worker: int, arrays: Mapping[str, np.ndarray]) -> Columns:
    prefix = f"{_PREFIX}/{worker}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def no_shared_memory(pool: str, arrays: Mapping[str, ArraySpec]) -> RequestError:
    """What a pool without shared memory answers to `spawn(arrays=...)` and to `share`."""
    return RequestError(
        f"{pool} has no memory that its actors share with their caller",
        received=f"shared arrays {', '.join(arrays)}",
        expected="no arrays: WorkerPool.shares_memory is False",
        help="let the arrays travel inside answers, as maze_runtime.workers.lanes does, or choose another pool",
    )
