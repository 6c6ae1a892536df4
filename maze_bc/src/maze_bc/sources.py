"""Where demonstrations come from: opens what the option `demonstrations` names."""

from __future__ import annotations

from contextlib import closing

from maze_bc.data import Demonstrations
from maze_bc.minari_data import MinariEpisodes
from maze_bc.options import MinariData, TrajectoryData
from maze_bc.recorded_data import RecordedEpisodes, RecordedStates, speaks_of_states
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.minari_source import MinariSource


def open_demonstrations(options: TrajectoryData | MinariData, context: TrainerContext) -> Demonstrations:
    """The episodes as the training environment would show them inside of its transforms.

    Raises:
        RequestError: there are none, or Minari is not installed.
        SpaceError: a Minari dataset does not fit the environment.
        TrajectoryError: a recording is damaged.
    """
    assert context.make_env is not None
    if isinstance(options, MinariData):
        with closing(context.make_env()) as env:
            return MinariEpisodes(MinariSource(options.id), env.structured_spaces)
    dataset = TrajectoryDataset.open(options.path)
    env = context.make_env()
    if speaks_of_states(env, dataset):
        return RecordedStates(dataset, env)
    env.close()
    return RecordedEpisodes(dataset)
