"""The checkpoints of a run directory, safe from a crash at any moment: written aside, flushed, then renamed.

    checkpoints/epoch-000040/               checkpoints/best -> epoch-000035        checkpoints/last -> epoch-000040

Older folders are deleted only after the new one is safely on disk. What is in a folder is `checkpoint`'s subject.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import attrs

from maze_kernel.errors import CheckpointError, FormatError, MazeWarning
from maze_runtime.run.storage import TEMPORARY_PREFIX, Storage, point_to, remove_leftovers
from maze_runtime.training.checkpoint import (
    Checkpoint,
    LoopState,
    checkpoint_files,
    is_resumable,
    read_checkpoint,
    require_finite_weights,
)

_NAME = re.compile(r"epoch-(\d{6,})")


def checkpoint_name(epoch: int) -> str:
    """The folder name of an epoch."""
    return f"epoch-{epoch:06d}"


class CheckpointStore:
    """The checkpoints of one run directory."""

    def __init__(self, run_dir: Path, *, keep: int = 2, storage: Storage | None = None) -> None:
        self.folder = Path(run_dir) / "checkpoints"
        self.keep = keep
        self.storage = storage or Storage()

    def clean(self) -> list[str]:
        """Remove temporary folders that a crash left; returns their names."""
        return remove_leftovers(self.folder)

    def save(self, checkpoint: Checkpoint, *, best: Checkpoint | None = None, best_epoch: int | None = None) -> Path:
        """Write a checkpoint and everything that goes with it, then delete what is no longer needed.

        Args:
            best: weights of an earlier epoch that became the best since the last save, to be kept as well.
            best_epoch: the epoch that `best` should point to; None: there is no best yet.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
            StateError: a state holds what no checkpoint can; no file of it is written.
            CheckpointError: the disk refused; what was saved before is whole.
        """
        try:
            self.storage.make_directory(self.folder)
            if best is not None and best.epoch != checkpoint.epoch:
                self._write(best)
            path = self._write(checkpoint)
            self._point(checkpoint.epoch, best_epoch)
            self._prune(best_epoch)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint of epoch {checkpoint.epoch} could not be written: {error}",
                received=str(self.folder),
                help="free some disk space; the checkpoints saved before are whole",
            ) from error
        return path

    def epochs(self) -> list[int]:
        """Epochs that have a folder, rising; whole or not."""
        if not self.folder.is_dir():
            return []
        matches = (_NAME.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match.group(1)) for match in matches if match)

    def pointed(self, name: str) -> int | None:
        """The epoch that "best" or "last" points to, None where there is no such pointer."""
        try:
            target = os.readlink(self.folder / name)
        except OSError:
            return None
        match = _NAME.fullmatch(target)
        return int(match.group(1)) if match else None

    def load(self, epoch: int) -> Checkpoint:
        """Read one checkpoint.

        Raises:
            FormatError: another version of Maze wrote it.
            CheckpointError: it is missing or damaged.
        """
        checkpoint = read_checkpoint(self.folder / checkpoint_name(epoch))
        if checkpoint.epoch != epoch:
            raise CheckpointError(f"checkpoint {self.folder / checkpoint_name(epoch)} is of epoch {checkpoint.epoch}")
        return checkpoint

    def load_newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint a run can continue from, and a line about each one that was passed over."""
        skipped: list[str] = []
        for epoch in reversed(self.epochs()):
            try:
                checkpoint = self.load(epoch)
            except FormatError:
                raise
            except CheckpointError as error:
                skipped.append(f"skipped checkpoint {checkpoint_name(epoch)}: {error.what}")
                continue
            if checkpoint.resumable:
                return checkpoint, skipped
        return None, skipped

    def load_named(self, name: str) -> Checkpoint:
        """Read "best", "last" or "epoch-000040"; the newest whole one in place of a best or last one that is not.

        A damaged one is warned of, with what is read in its place.
        """
        match = _NAME.fullmatch(name)
        if match:
            return self.load(int(match.group(1)))
        if name not in ("best", "last"):
            raise CheckpointError(f"no checkpoint {name!r}", expected="best, last or epoch-NNNNNN")
        try:
            checkpoint, damage = self._load_pointed(name), ""
        except FormatError:
            raise
        except CheckpointError as error:
            checkpoint, damage = None, error.what
        if checkpoint is None:
            checkpoint, _ = self.load_newest()
        if checkpoint is None:
            raise CheckpointError(f"no whole checkpoint in {self.folder}", help="train the run first")
        if damage:
            instead = f"{checkpoint_name(checkpoint.epoch)}, the newest whole one, is taken in its place"
            warnings.warn(f'the checkpoint "{name}" cannot be used: {damage}; {instead}', MazeWarning, stacklevel=2)
        return checkpoint

    def _load_pointed(self, name: str) -> Checkpoint | None:
        """What "best" or "last" points to; None where there is no such pointer."""
        folder = self.folder / name
        if folder.is_dir() and not folder.is_symlink():  # a copy of the run, made where there are no links
            return read_checkpoint(folder)
        epoch = self.pointed(name)
        return None if epoch is None else self.load(epoch)

    def with_whole_best(self, checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
        """The checkpoint that a run goes on from, with a best one that is whole, and a line where it had another.

        In the place of a damaged one comes the newest before it that was the best when it was saved: of others nobody
        knows how good they are. Without one the best is chosen anew.
        """
        loop = checkpoint.loop
        if loop is None or loop.best_epoch in (None, checkpoint.epoch):
            return checkpoint, []
        try:
            self.load(loop.best_epoch)
            return checkpoint, []
        except FormatError:
            raise
        except CheckpointError as error:
            damage = error.what
        other = self._newest_that_was_best(before=checkpoint.epoch)
        if other is None:
            told = "no other one is known to have been the best: the next evaluation is the best so far"
            loop = attrs.evolve(loop, best_epoch=None, best_metric=None, stale_evaluations=0)
        else:
            told = f"{checkpoint_name(other.epoch)} is the best now, with {other.best_metric:.6g}"
            loop = attrs.evolve(loop, best_epoch=other.epoch, best_metric=other.best_metric)
        return attrs.evolve(checkpoint, loop=loop), [f"the best checkpoint is lost: {damage}; {told}"]

    def _newest_that_was_best(self, before: int) -> LoopState | None:
        for epoch in reversed([epoch for epoch in self.epochs() if epoch < before]):
            try:
                loop = self.load(epoch).loop
            except FormatError:
                raise
            except CheckpointError:
                continue
            if loop is not None and loop.best_epoch == epoch:
                return loop
        return None

    def drop_after(self, epoch: int) -> None:
        """Remove folders of later epochs: damaged ones, and best weights of epochs that will run again."""
        for later in self.epochs():
            if later > epoch:
                self._remove(self.folder / checkpoint_name(later))

    def go_on_from(self, epoch: int, best_epoch: int | None) -> None:
        """Remove folders of later epochs and let "last" and "best" be what they are at this one.

        A crash between writing a checkpoint and pointing to it leaves them behind. Without a best epoch, no "best".

        Raises:
            CheckpointError: the disk refused.
        """
        try:
            self.drop_after(epoch)
            if best_epoch is None and self.pointed("best") is not None:
                self.storage.remove(self.folder / "best")
            self._point(epoch, best_epoch)
        except OSError as error:
            raise CheckpointError(f"the pointers to the checkpoints could not be written: {error}") from error

    def _point(self, epoch: int, best_epoch: int | None) -> None:
        point_to(self.storage, self.folder / "last", checkpoint_name(epoch))
        if best_epoch is not None and (self.folder / checkpoint_name(best_epoch)).is_dir():
            point_to(self.storage, self.folder / "best", checkpoint_name(best_epoch))
        self.storage.sync_directory(self.folder)

    def _write(self, checkpoint: Checkpoint) -> Path:
        require_finite_weights(checkpoint.model, f"the weights of epoch {checkpoint.epoch}")
        files, target = checkpoint_files(checkpoint), self.folder / checkpoint_name(checkpoint.epoch)
        temporary = self.folder / f"{TEMPORARY_PREFIX}{target.name}-{os.getpid()}"
        try:
            self.storage.make_directory(temporary)
            for name, data in files:
                self.storage.write_bytes(temporary / name, data)
            self.storage.sync_directory(temporary)
            if target.exists():
                self.storage.rename(target, self.folder / f"{TEMPORARY_PREFIX}old-{target.name}-{os.getpid()}")
            self.storage.rename(temporary, target)
        except OSError:
            self._remove_quietly(temporary)
            raise
        self.storage.sync_directory(self.folder)
        return target

    def _prune(self, best_epoch: int | None) -> None:
        resumable = [epoch for epoch in self.epochs() if is_resumable(self.folder / checkpoint_name(epoch))]
        keep = {*resumable[-self.keep :], best_epoch}
        for epoch in self.epochs():
            if epoch not in keep:
                self._remove(self.folder / checkpoint_name(epoch))
        self.clean()

    def _remove(self, folder: Path) -> None:
        """Rename first, so that a crash while deleting leaves no half folder under a final name."""
        doomed = self.folder / f"{TEMPORARY_PREFIX}old-{folder.name}-{os.getpid()}"
        self.storage.rename(folder, doomed)
        self.storage.remove(doomed)

    def _remove_quietly(self, folder: Path) -> None:
        try:
            self.storage.remove(folder)
        except OSError:
            return  # the next start removes it
