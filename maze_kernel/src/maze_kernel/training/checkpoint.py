"""Checkpoints that survive a crash at any moment: folders written aside, flushed, then renamed.

    checkpoints/epoch-000040/{model.safetensors, trainer.safetensors, state.json, manifest.json}
    checkpoints/best -> epoch-000035        checkpoints/last -> epoch-000040

`manifest.json` holds the size and SHA-256 of every file. Older folders are deleted only after the new one is safely
on disk. Reading one never runs code: tensors and JSON only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import safetensors.torch
import torch
from safetensors import SafetensorError

from maze_kernel.errors import CheckpointError, NonFiniteError
from maze_kernel.run.storage import TEMPORARY_PREFIX, Storage, encode_json, point_to, remove_leftovers
from maze_kernel.run.stored_data import from_data, to_data
from maze_kernel.training.state_tree import flatten_state, unflatten_state

FORMAT = 1
"""Version of the checkpoint layout, written to every `state.json`."""

_NAME = re.compile(r"epoch-(\d{6,})")
_FILES = ("model.safetensors", "trainer.safetensors", "state.json")


@attrs.frozen(kw_only=True)
class FileDigest:
    """What a whole file has."""

    bytes: int
    sha256: str


@attrs.frozen(kw_only=True)
class Manifest:
    """`manifest.json`."""

    format: int
    files: Mapping[str, FileDigest]


@attrs.frozen(kw_only=True)
class StateFile:
    """`state.json`; `state` is a tree of `state_tree`."""

    format: int
    epoch: int
    resumable: bool
    state: Any


@attrs.frozen(kw_only=True)
class Checkpoint:
    """One checkpoint in memory.

    Attributes:
        epoch: how many epochs these weights have seen.
        model: the model's state dict.
        state: everything else: "loop", "trainer", "transforms", nested as `state_tree` allows.
        resumable: False for weights kept only because they were the best.
    """

    epoch: int
    model: Mapping[str, torch.Tensor]
    state: Mapping[str, Any] = attrs.field(factory=dict)
    resumable: bool = True


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
            CheckpointError: the disk refused; what was saved before is whole.
        """
        try:
            self.storage.make_directory(self.folder)
            if best is not None and best.epoch != checkpoint.epoch:
                self._write(best)
            path = self._write(checkpoint)
            point_to(self.storage, self.folder / "last", path.name)
            if best_epoch is not None and (self.folder / checkpoint_name(best_epoch)).is_dir():
                point_to(self.storage, self.folder / "best", checkpoint_name(best_epoch))
            self.storage.sync_directory(self.folder)
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
            CheckpointError: it is missing, damaged, or of another format.
        """
        folder = self.folder / checkpoint_name(epoch)
        contents = _read_verified(folder)
        try:
            data = json.loads(contents["state.json"])
            _check_format(data, folder)
            file = from_data(data, StateFile)
            model = safetensors.torch.load(contents["model.safetensors"])
            tensors = safetensors.torch.load(contents["trainer.safetensors"])
            tree = unflatten_state(file.state, tensors)
            return Checkpoint(epoch=file.epoch, model=model, state=tree, resumable=file.resumable)
        except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise CheckpointError(f"checkpoint {folder} is damaged: {error!r}") from error

    def load_newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint a run can continue from, and a line about each one that was passed over."""
        skipped: list[str] = []
        for epoch in reversed(self.epochs()):
            try:
                checkpoint = self.load(epoch)
            except CheckpointError as error:
                if error.received == "another format":
                    raise
                skipped.append(f"skipped checkpoint {checkpoint_name(epoch)}: {error.what}")
                continue
            if checkpoint.resumable:
                return checkpoint, skipped
        return None, skipped

    def load_named(self, name: str) -> Checkpoint:
        """Read "best", "last" or "epoch-000040"; "best" falls back to "last", "last" to the newest whole one."""
        match = _NAME.fullmatch(name)
        if match:
            return self.load(int(match.group(1)))
        if name not in ("best", "last"):
            raise CheckpointError(f"no checkpoint {name!r}", expected="best, last or epoch-NNNNNN")
        epoch = self.pointed(name)
        if epoch is not None:
            try:
                return self.load(epoch)
            except CheckpointError as error:
                if error.received == "another format":
                    raise
        checkpoint, _ = self.load_newest()
        if checkpoint is None:
            raise CheckpointError(f"no whole checkpoint in {self.folder}", help="train the run first")
        return checkpoint

    def drop_after(self, epoch: int) -> None:
        """Remove folders of later epochs: damaged ones, and best weights of epochs that will run again."""
        for later in self.epochs():
            if later > epoch:
                self._remove(self.folder / checkpoint_name(later))

    def _write(self, checkpoint: Checkpoint) -> Path:
        require_finite_weights(checkpoint.model, f"the weights of epoch {checkpoint.epoch}")
        target = self.folder / checkpoint_name(checkpoint.epoch)
        temporary = self.folder / f"{TEMPORARY_PREFIX}{target.name}-{os.getpid()}"
        try:
            self.storage.make_directory(temporary)
            for name, data in _encode(checkpoint):
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
        resumable = [epoch for epoch in self.epochs() if epoch != best_epoch or self._is_resumable(epoch)]
        keep = {*[epoch for epoch in resumable if self._is_resumable(epoch)][-self.keep :], best_epoch}
        for epoch in self.epochs():
            if epoch not in keep:
                self._remove(self.folder / checkpoint_name(epoch))
        self.clean()

    def _is_resumable(self, epoch: int) -> bool:
        try:
            data = json.loads((self.folder / checkpoint_name(epoch) / "state.json").read_bytes())
            return from_data(data, StateFile).resumable
        except (OSError, ValueError):
            return False

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


def require_finite_weights(model: Mapping[str, torch.Tensor], what: str) -> None:
    """Refuse NaN and infinite weights.

    Raises:
        NonFiniteError: naming the first few tensors.
    """
    bad = [name for name, tensor in model.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise NonFiniteError(
            f"{what} are not finite",
            received=f"NaN or infinity in {', '.join(bad[:3])}{' …' if len(bad) > 3 else ''}",
            help="lower the learning rate, clip gradients (max_grad_norm), or scale rewards and observations",
        )


def _encode(checkpoint: Checkpoint) -> list[tuple[str, bytes]]:
    tree, tensors = flatten_state(checkpoint.state)
    state = StateFile(format=FORMAT, epoch=checkpoint.epoch, resumable=checkpoint.resumable, state=tree)
    model = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in checkpoint.model.items()}
    files = [
        ("model.safetensors", safetensors.torch.save(model)),
        ("trainer.safetensors", safetensors.torch.save(tensors)),
        ("state.json", encode_json(to_data(state))),
    ]
    digests = {name: FileDigest(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in files}
    return [*files, ("manifest.json", encode_json(to_data(Manifest(format=FORMAT, files=digests))))]


def _read_verified(folder: Path) -> dict[str, bytes]:
    try:
        digests = json.loads((folder / "manifest.json").read_bytes())
        _check_format(digests, folder)
        manifest = from_data(digests, Manifest)
        contents = {name: (folder / name).read_bytes() for name in _FILES}
        for name, data in contents.items():
            if hashlib.sha256(data).hexdigest() != manifest.files[name].sha256:
                raise CheckpointError(f"{folder / name} does not match its checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {folder} is missing or damaged: {error}") from error
    return contents


def _check_format(data: Mapping[str, Any], folder: Path) -> None:
    if data["format"] != FORMAT:
        raise CheckpointError(
            f"checkpoint {folder} has format {data['format']}, this Maze reads format {FORMAT}",
            received="another format",
            help=f"load it with the Maze version that wrote it (see run.json), or migrate it to format {FORMAT}",
        )
