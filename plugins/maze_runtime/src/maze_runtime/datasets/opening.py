"""Opens the dataset that a trainer's options select, here or on the worker pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from maze_kernel.catalog import build
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.selection import Selection
from maze_runtime.datasets.contract import DatasetContext, EpisodeSource, Source
from maze_runtime.datasets.pooled_source import PooledSource
from maze_runtime.run.placing import placed

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
    """
    if not context.has_workers:
        return open_data(data, DatasetContext(make_env=context.make_env))
    # Workers may have been started elsewhere.
    there = DatasetContext(make_env=context.make_env, folder=Path.cwd())
    return PooledSource(context.make_workers(), partial(open_data, data, there))
