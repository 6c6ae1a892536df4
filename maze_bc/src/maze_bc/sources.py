"""Where demonstrations come from: opens what the option `demonstrations` names, here or on the worker pool."""

from __future__ import annotations

from collections.abc import Callable

from maze_bc.data import Demonstrations
from maze_bc.recorded_data import RecordedArrays, RecordedStates, speaks_of_states
from maze_kernel.env.contract import StructuredEnv
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.opening import Data, open_recorded, open_source
from maze_kernel.trajectories.options import TrajectoryData


def open_demonstrations(data: Data, context: TrainerContext) -> Demonstrations:
    """The episodes as the training environment would show them inside of its transforms.

    With a `[workers]` table they are read on the pool.

    Raises:
        RequestError: there are none, or Minari is not installed.
        SpaceError: a Minari dataset does not fit the environment.
        TrajectoryError: a recording is damaged.
    """
    return open_source(data, _open, context)


def _open(data: Data, make_env: Callable[[], StructuredEnv]) -> Demonstrations:
    if isinstance(data, TrajectoryData):
        dataset, env = TrajectoryDataset.open(data.path), make_env()
        if speaks_of_states(env, dataset):
            return RecordedStates(dataset, env)
        env.close()
    return RecordedArrays(open_recorded(data, make_env))
