"""Where demonstrations come from: opens what the option `demonstrations` names."""

from __future__ import annotations

from maze_bc.data import Demonstrations, RecordedEpisodes
from maze_bc.options import MinariData, TrajectoryData
from maze_kernel.training.contract import TrainerContext
from maze_kernel.trajectories.dataset import TrajectoryDataset


def open_demonstrations(options: TrajectoryData | MinariData, context: TrainerContext) -> Demonstrations:
    """The episodes, as recorded.

    Raises:
        RequestError: there are none.
        TrajectoryError: a recording is damaged.
    """
    return RecordedEpisodes(TrajectoryDataset.open(options.path))
