"""What training writes into the run directory besides checkpoints: normalisation, and batches that were not finite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.errors import CheckpointError, NonFiniteError
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.storage import Storage, replace_json
from maze_runtime.training.checkpoint_store import CheckpointStore


def save_normalization(store: CheckpointStore, assembly: Assembly) -> None:
    """Write the transforms' statistics to `normalization.json`, for people and for other programs to read."""
    states = assembly.transform_states()
    if not any(states):
        return
    selections = assembly.transform_selections
    data = [{"use": s.use, "statistics": _listed(state)} for s, state in zip(selections, states, strict=True)]
    try:
        replace_json(store.storage, store.folder.parent / "normalization.json", {"format": 1, "transforms": data})
    except OSError as error:
        raise CheckpointError(f"normalization.json could not be written: {error}") from error


def write_batch(run_dir: Path, error: NonFiniteError) -> Path | None:
    """Store the batch that a NonFiniteError carries; None where it carries none or the disk refuses."""
    from safetensors.numpy import save

    if not error.batch:
        return None
    path = run_dir / "non-finite-batch.safetensors"
    try:
        Storage().write_bytes(path, save({name: np.ascontiguousarray(value) for name, value in error.batch.items()}))
    except (OSError, TypeError, ValueError):
        return None
    return path


def _listed(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {str(key): _listed(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_listed(value) for value in state]
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state
