"""Where demonstrations come from: opens what the option `demonstrations` names, here or on the worker pool."""

from __future__ import annotations

from functools import partial

from maze_bc.data import Demonstrations, require_known_keys
from maze_bc.options import KeepAll, ProcessorOptions
from maze_bc.processors import make_processor
from maze_bc.recorded_data import RecordedArrays, RecordedStates, speaks_of_states
from maze_bc.taken_apart import TakenApart
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.selection import Selection
from maze_runtime.datasets.contract import DatasetContext
from maze_runtime.datasets.maze_episodes import HoldsMazeEpisodes
from maze_runtime.datasets.opening import open_dataset, open_source


def open_demonstrations(
    data: Selection, context: TrainerContext, processor: ProcessorOptions | None = None
) -> Demonstrations:
    """The episodes as the training environment would show them inside of its transforms.

    With a `[workers]` table they are read on the pool.

    Args:
        data: the dataset.
        context: of the trainer.
        processor: says which decisions are learnt from; None: all.

    Raises:
        MazeError: see `open_dataset`.
        RequestError: the processor cannot be used.
    """
    return open_source(data, partial(_open, processor or KeepAll()), context)


def _open(processor_options: ProcessorOptions, data: Selection, context: DatasetContext) -> Demonstrations:
    processor = make_processor(processor_options)
    episodes = open_dataset(data, context)
    if isinstance(episodes, HoldsMazeEpisodes):
        env = context.make_env()
        if speaks_of_states(env, episodes):
            if episodes.spaces.is_flat and not env.structured_spaces.is_flat:
                return TakenApart(episodes, env, processor)
            require_known_keys(episodes.spaces, env.structured_spaces)
            return RecordedStates(episodes, env, processor)
        env.close()
    return RecordedArrays(episodes, processor)
