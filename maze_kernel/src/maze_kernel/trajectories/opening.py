"""Opens the recorded episodes that a trainer's options name, here or on the worker pool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs

from maze_kernel.env.contract import StructuredEnv
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.minari_fit import FittedMinari
from maze_kernel.trajectories.minari_source import MinariSource
from maze_kernel.trajectories.options import MinariData, TrajectoryData
from maze_kernel.trajectories.pooled_source import PooledSource
from maze_kernel.trajectories.source import RecordedEpisodes, Source

EpisodeT = TypeVar("EpisodeT")
Data = TrajectoryData | MinariData
"""Where recorded episodes are."""


def open_recorded(data: Data, make_env: Callable[[], StructuredEnv]) -> RecordedEpisodes:
    """The episodes as arrays, inside of the transforms of the training environments.

    Args:
        data: where they are.
        make_env: an environment like those trained in, without transforms; a Minari dataset comes in its spaces.

    Raises:
        RequestError: there are none, or Minari is not installed.
        SpaceError: a Minari dataset does not fit the environment.
        TrajectoryError: a recording is damaged.
    """
    if isinstance(data, MinariData):
        with closing(make_env()) as env:
            return RecordedEpisodes(FittedMinari(MinariSource(data.id), env.structured_spaces))
    return RecordedEpisodes(TrajectoryDataset.open(data.path))


def open_source(
    data: Data, open_data: Callable[[Data, Callable[[], StructuredEnv]], Source[EpisodeT]], context: TrainerContext
) -> Source[EpisodeT]:
    """Open data here, or on the pool of an experiment with a `[workers]` table.

    Args:
        data: where they are.
        open_data: opens them for environments, as `open_recorded` does; survives transport to a worker.
        context: of the trainer.

    Raises:
        MazeError: whatever `open_data` raises.
    """
    if not context.has_workers:
        return open_data(data, context.make_env)
    if isinstance(data, TrajectoryData):  # workers may have been started elsewhere
        data = attrs.evolve(data, path=str(Path(data.path).resolve()))
    return PooledSource(context.make_workers(), partial(open_data, data, context.make_env))
