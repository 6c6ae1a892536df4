"""The directory that training goes to: a new one, or that of a run which goes on, with its newest checkpoint.

Its path is absolute before the first environment is built: simulations may change the working directory.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import attrs

from maze_kernel.errors import RequestError
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import (
    Resumption,
    StoredRun,
    clean_run_directory,
    create_run_directory,
    is_unused,
    new_path,
    open_run,
    write_experiment,
)
from maze_runtime.run.folder_lock import FolderLock
from maze_runtime.run.writable import require_writable
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.initialization import open_source
from maze_runtime.training.resume import check_compatible, note_of_changes, note_of_schedules


@attrs.frozen
class RunDirectory:
    """Where a run is written, and what it goes on from.

    Attributes:
        path: absolute.
        lock: keeps other processes from training there; to be released when training is over.
        checkpoint: the newest one of a run that goes on; None: training starts at the beginning.
        notes: what is to be said about it.
        resumption: of a run that goes on: for `note_resumption`, once its checkpoint is restored. Until then
            `run.json` describes what has been trained.
    """

    path: Path
    lock: FolderLock
    checkpoint: Checkpoint | None = None
    notes: tuple[str, ...] = ()
    resumption: Resumption | None = None


def run_directory(assembly: Assembly, run_dir: Path | None, resume: Path | None, overwrite: bool) -> RunDirectory:
    """The directory of a run that begins or goes on.

    Args:
        run_dir: a new one; None: below `runs/`.
        resume: of the run that goes on, in place of `run_dir`.
        overwrite: replace the run in `run_dir`.

    Raises:
        MazeError: nothing was created or replaced.
    """
    if resume is None:
        lock = _new_directory(assembly, run_dir, overwrite)
        return RunDirectory(lock.folder, lock)
    if run_dir is not None or overwrite:
        received = "--overwrite" if overwrite else f"--out {run_dir}"
        raise RequestError("a resumed run stays in its directory", received=received, help="leave it out")
    if is_unused(resume):
        lock = _new_directory(assembly, resume, overwrite=False)
        note = "the run was stopped before it began: training starts at the beginning"
        return RunDirectory(lock.folder, lock, notes=(note,))
    stored = open_run(resume)
    stored = attrs.evolve(stored, path=stored.path.absolute())
    check_compatible(stored, assembly.loaded)
    require_writable(
        stored.path,
        "checkpoints",
        help="see to its permissions, or copy the run to a folder of your own and resume that",
    )
    with ExitStack() as stack:
        lock = stack.enter_context(FolderLock(stored.path, "run"))
        directory = _directory_to_go_on_in(assembly, stored, lock)
        stack.pop_all()
    return directory


def _directory_to_go_on_in(assembly: Assembly, stored: StoredRun, lock: FolderLock) -> RunDirectory:
    clean_run_directory(stored.path)
    store = CheckpointStore(stored.path)
    store.clean()
    write_experiment(stored.path, assembly.loaded)
    checkpoint, notes = store.load_newest()
    if checkpoint is None:
        has = "no whole checkpoint" if notes else "no checkpoint yet"
        note = f"the run has {has}: training starts at the beginning"
    else:
        checkpoint, of_best = store.with_whole_best(checkpoint)
        notes += of_best
        note = f"resumed from epoch {checkpoint.epoch}"
    if changes := note_of_changes(stored.resolved, assembly.loaded):
        notes = [*notes, changes]
        if checkpoint and (moved := note_of_schedules(stored.resolved, assembly.loaded, checkpoint)):
            notes = [*notes, moved]
    resumption = Resumption(epoch=checkpoint.epoch if checkpoint else 0, overrides=assembly.loaded.overrides)
    return RunDirectory(stored.path, lock, checkpoint, (*notes, note), resumption)


def _new_directory(assembly: Assembly, run_dir: Path | None, overwrite: bool) -> FolderLock:
    """What does not fit is refused before anything is created or replaced."""
    source = assembly.experiment.initialize_from
    if source:
        open_source(source)
    if overwrite and run_dir is None:
        raise RequestError("--overwrite names no run", help="name the directory to replace with --out")
    if overwrite and source and Path(source).resolve().is_relative_to(run_dir.resolve()):  # type: ignore[union-attr]
        raise RequestError(
            "a run cannot replace the one that it is initialised from",
            received=f"initialize_from = {source!r} and --out {run_dir} --overwrite",
            help="give --out another directory",
        )
    place = Path(run_dir or new_path(Path("runs"), assembly.experiment.name)).absolute()
    _ = assembly.spaces
    return create_run_directory(assembly.loaded, assembly.kernel, place, shown=run_dir, overwrite=overwrite)
