"""Opens the dataset that a trainer's options select, here or on the worker pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from maze_kernel.catalog import build
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_runtime.datasets.contract import DatasetContext, EpisodeSource, Source
from maze_runtime.datasets.pooled_source import PooledSource
from maze_runtime.run.placing import placed
from maze_runtime.workers.shared_files import require_shared_files

EpisodeT = TypeVar("EpisodeT")


def open_dataset(data: Selection, context: DatasetContext) -> EpisodeSource:
    """The episodes as they were recorded, inside of the transforms of the training environments.

    Raises:
        MazeError: there are none, they do not fit the environment, or they are damaged; shown at its place in the
            experiment.
    """
    with placed(data):
        return build(data, context)  # type: ignore[no-any-return]


def open_source(
    data: Selection, open_data: Callable[[Selection, DatasetContext], Source[EpisodeT]], context: TrainerContext
) -> Source[EpisodeT]:
    """Open a dataset here, or on the pool of an experiment with a `[workers]` table.

    Args:
        data: the dataset.
        open_data: opens it, as `open_dataset` does; survives transport to a worker.
        context: of the trainer.

    Raises:
        MazeError: whatever `open_data` raises.
        RequestError: workers do not find the files of this machine; shown at its place in the experiment.
    """
    if not context.has_workers:
        return open_data(data, DatasetContext(make_env=context.make_env))
    pool = context.make_workers()
    try:
        with placed(data):
            require_shared_files(pool, "recorded episodes are read from files", "train without a [workers] table")
    except RequestError:
        pool.close()
        raise
    # Workers may have been started elsewhere.
    there = DatasetContext(make_env=context.make_env, folder=Path.cwd())
    return PooledSource(pool, partial(open_data, data, there))
