"""Where demonstrations come from: opens what the option `demonstrations` names, here or on the worker pool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs

from maze_bc.data import Demonstrations
from maze_bc.minari_data import MinariEpisodes
from maze_bc.options import MinariData, TrajectoryData
from maze_bc.pooled_data import PooledDemonstrations
from maze_bc.recorded_data import RecordedEpisodes, RecordedStates, speaks_of_states
from maze_kernel.env.contract import StructuredEnv
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.minari_source import MinariSource


def open_demonstrations(options: TrajectoryData | MinariData, context: TrainerContext) -> Demonstrations:
    """The episodes as the training environment would show them inside of its transforms.

    With a `[workers]` table they are read on the pool.

    Raises:
        RequestError: there are none, or Minari is not installed.
        SpaceError: a Minari dataset does not fit the environment.
        TrajectoryError: a recording is damaged.
    """
    assert context.make_env is not None
    if not context.has_workers:
        return _open(options, context.make_env)
    if isinstance(options, TrajectoryData):  # workers may have been started elsewhere
        options = attrs.evolve(options, path=str(Path(options.path).resolve()))
    return PooledDemonstrations(context.make_workers(), partial(_open, options, context.make_env))


def _open(options: TrajectoryData | MinariData, make_env: Callable[[], StructuredEnv]) -> Demonstrations:
    if isinstance(options, MinariData):
        with closing(make_env()) as env:
            return MinariEpisodes(MinariSource(options.id), env.structured_spaces)
    dataset = TrajectoryDataset.open(options.path)
    env = make_env()
    if speaks_of_states(env, dataset):
        return RecordedStates(dataset, env)
    env.close()
    return RecordedEpisodes(dataset)
