"""Sees to it that there is something to view: a run without recorded episodes plays some first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from maze_kernel.errors import MazeError
from maze_kernel.shown_command import shown_command
from maze_runtime.commands.runs import new_folder, newest_run
from maze_runtime.run.writable import require_writable
from maze_trajectories.dataset import recordings_in

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment


def recorded(source: Path, n_episodes: int, experiment: LoadedExperiment | None = None) -> Path:
    """What is to be viewed: the newest run of a folder of runs, anything else as it is.

    A run without recordings plays episodes with its best weights and keeps them; standard error says so.

    Args:
        source: a run directory, a folder of some, a recording, or the file of an episode.
        n_episodes: to be played.
        experiment: builds the environment; None: the one that the run describes, from installed plugins only.

    Raises:
        RequestError: the run has no recordings, and none can be written into it.
        MazeError: the run cannot be played, or no episode could be recorded.
    """
    source = newest_run(source)
    if (source / "run.json").is_file() and not recordings_in(source):
        _play(source, n_episodes, experiment)
    return source


def _play(run: Path, n_episodes: int, experiment: LoadedExperiment | None) -> None:
    from maze_runtime.playing.players import load_checkpoint
    from maze_runtime.playing.roll_out import RolloutOptions, roll_out
    from maze_runtime.training.resume import stored_experiment

    rollout, view = shown_command("maze", "rollout", run, "--record-to", "DIR"), shown_command("maze", "view", "DIR")
    elsewhere = f"record elsewhere, and view that: {rollout}, then {view}"
    require_writable(run.absolute() / "trajectories", f"{run} has no recorded episodes, and new ones", help=elsewhere)
    print(f"{run} has no recorded episodes: playing {n_episodes}", file=sys.stderr)
    loaded = experiment or stored_experiment(run)
    options = RolloutOptions(n_episodes=n_episodes, record_dir=new_folder(run, "trajectories", loaded.experiment.name))
    result = roll_out(loaded, loaded.kernel, options, checkpoint=load_checkpoint(run, "best"), run_dir=run)
    failed = [episode for episode in result.episodes if episode.error is not None]
    if failed and not recordings_in(run):
        what = f"none of {n_episodes} episodes could be played and recorded: {failed[0].error}"
        raise MazeError(what, received=f"seed {failed[0].seed}", help=elsewhere) from failed[0].cause
