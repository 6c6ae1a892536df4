"""What a checkpoint holds, and the four files of its folder.

    {model.safetensors, trainer.safetensors, state.json, manifest.json}

`manifest.json` holds the size and SHA-256 of every other file. Reading one never runs code: tensors and JSON only.
Where the folders of a run are, and which of them stay, is `checkpoint_store`'s subject.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import safetensors.torch
import torch
from safetensors import SafetensorError

from maze_kernel.errors import CheckpointError, FormatError, NonFiniteError
from maze_runtime.models.head_distributions import HeadDistribution
from maze_runtime.run.storage import encode_json
from maze_runtime.run.stored_data import from_data, to_data
from maze_runtime.training.state_tree import flatten_state, unflatten_state

FORMAT = 1
"""Version of the checkpoint layout, written to every `state.json`."""

_FILES = ("model.safetensors", "trainer.safetensors", "state.json")


@attrs.frozen(kw_only=True)
class EarlyStop:
    """What a callback of the experiment ended a run with.

    Attributes:
        reason: in words.
        callback: the table that selects it, as JSON: a resumed run that still has it has nothing left to train.
    """

    reason: str
    callback: str


@attrs.define(kw_only=True)
class LoopState:
    """The epoch loop's own counters."""

    epoch: int = 0
    best_epoch: int | None = None
    best_metric: float | None = None
    stale_evaluations: int = 0
    """Evaluations since the best one, or since patience began anew."""
    wall_seconds: float = 0.0
    """Training time of this run before it was resumed."""
    n_episodes: int = 0
    """Training episodes that have finished."""
    training_events: list[str] = attrs.field(factory=list)
    """The order of event statistics, see `EpochAggregator.order`."""
    evaluation_events: list[str] = attrs.field(factory=list)
    evaluators_events: dict[str, list[str]] = attrs.field(factory=dict)
    """The same of evaluators with a name."""
    early_stop: EarlyStop | None = None
    """None where no callback stopped the run, or one that was given from Python, which is asked anew."""
    known_statistics: list[str] = attrs.field(factory=list)
    """See `metric.known_names`: one that is missing in an epoch is none that there is not."""


@attrs.frozen(kw_only=True)
class Checkpoint:
    """One checkpoint in memory.

    Attributes:
        epoch: how many epochs these weights have seen.
        model: the model's state dict.
        loop: the loop's counters; None where the run cannot go on from here.
        trainer: the trainer's state dict, nested as `state_tree` allows; empty where the run cannot go on from here.
        transforms: statistics of each transform, innermost first.
        callbacks: "states" of callbacks by name and "options" that they changed; empty where there is neither.
        resumable: False for weights kept only because they were the best.
        activations: see `activations_of`; empty where an older version wrote it.
        distributions: see `head_distributions`; empty where an older version wrote it.
    """

    epoch: int
    model: Mapping[str, torch.Tensor]
    loop: LoopState | None = None
    trainer: Mapping[str, Any] = attrs.field(factory=dict)
    transforms: Sequence[Mapping[str, Any]] = ()
    callbacks: Mapping[str, Any] = attrs.field(factory=dict)
    resumable: bool = True
    activations: Mapping[str, str] = attrs.field(factory=dict)
    distributions: Mapping[str, Mapping[str, HeadDistribution]] = attrs.field(factory=dict)


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
    """`state.json`.

    Attributes:
        state: "transforms", "activations", "distributions", and of resumable checkpoints "loop", "trainer",
            "callbacks"; a tree of `state_tree`.
    """

    format: int
    epoch: int
    resumable: bool
    state: Mapping[str, Any]


def checkpoint_files(checkpoint: Checkpoint) -> list[tuple[str, bytes]]:
    """Name and contents of every file of a checkpoint's folder.

    Raises:
        StateError: the trainer's or a transform's state holds what no checkpoint can.
    """
    state: dict[str, Any] = {"transforms": list(checkpoint.transforms)}
    if checkpoint.resumable:
        state |= {"loop": to_data(checkpoint.loop), "trainer": checkpoint.trainer}
    if checkpoint.callbacks:
        state["callbacks"] = checkpoint.callbacks
    if checkpoint.activations:
        state["activations"] = checkpoint.activations
    if checkpoint.distributions:
        state["distributions"] = to_data(checkpoint.distributions)
    tree, tensors = flatten_state(state)
    file = StateFile(format=FORMAT, epoch=checkpoint.epoch, resumable=checkpoint.resumable, state=tree)
    model = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in checkpoint.model.items()}
    files = [
        ("model.safetensors", safetensors.torch.save(model)),
        ("trainer.safetensors", safetensors.torch.save(tensors)),
        ("state.json", encode_json(to_data(file))),
    ]
    digests = {name: FileDigest(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in files}
    return [*files, ("manifest.json", encode_json(to_data(Manifest(format=FORMAT, files=digests))))]


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder.

    Raises:
        FormatError: another version of Maze wrote it.
        CheckpointError: it is missing or damaged.
    """
    contents = _read_verified(folder)
    try:
        data = json.loads(contents["state.json"])
        _check_format(data, folder)
        file = from_data(data, StateFile)
        state = unflatten_state(file.state, safetensors.torch.load(contents["trainer.safetensors"]))
        return Checkpoint(
            epoch=file.epoch,
            model=safetensors.torch.load(contents["model.safetensors"]),
            loop=from_data(state["loop"], LoopState) if state.get("loop") is not None else None,
            trainer=state.get("trainer", {}),
            transforms=state.get("transforms", []),
            callbacks=dict(state.get("callbacks", {})),
            resumable=file.resumable,
            activations=state.get("activations", {}),
            distributions=from_data(state.get("distributions", {}), dict[str, dict[str, HeadDistribution]]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {error!r}") from error


def is_resumable(folder: Path) -> bool:
    """Whether a run can go on from the checkpoint in a folder; False where that cannot be read."""
    try:
        return from_data(json.loads((folder / "state.json").read_bytes()), StateFile).resumable
    except (OSError, ValueError, RecursionError):
        return False


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


def _read_verified(folder: Path) -> dict[str, bytes]:
    try:
        digests = json.loads((folder / "manifest.json").read_bytes())
        _check_format(digests, folder)
        manifest = from_data(digests, Manifest)
        contents = {name: (folder / name).read_bytes() for name in _FILES}
        for name, data in contents.items():
            if hashlib.sha256(data).hexdigest() != manifest.files[name].sha256:
                raise CheckpointError(f"{folder / name} does not match its checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {folder} is missing or damaged: {error}") from error
    return contents


def _check_format(data: Mapping[str, Any], folder: Path) -> None:
    if data["format"] != FORMAT:
        raise FormatError(
            f"checkpoint {folder} has format {data['format']}, this Maze reads format {FORMAT}",
            received=f"format {data['format']}",
            expected=f"format {FORMAT}",
            help="load it with the version of Maze that wrote it: run.json beside it names the packages",
        )
