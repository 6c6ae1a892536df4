"""What an epoch begins with, kept while it runs: one that a signal cuts short is as if it had never begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from maze_kernel.contracts.trainer import Trainer
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.resume import restore

LARGEST_KEPT_BYTES = 64 << 20
"""A state that is larger, such as a full replay buffer, is not copied once an epoch: its epochs are finished."""


class EpochBeginning:
    """The state at the beginning of the running epoch: on disk, in memory or, where it is large, nowhere."""

    def __init__(self, store: CheckpointStore, trainer: Trainer, assembly: Assembly) -> None:
        self._store = store
        self._trainer = trainer
        self._assembly = assembly
        self._saved_epoch: int | None = None
        self._kept: Checkpoint | None = None
        self._is_large = False

    @property
    def is_known(self) -> bool:
        """Whether `go_back` can be called."""
        return self._kept is not None or self._saved_epoch is not None

    def keep(self, snapshot: Callable[[], Checkpoint], saved_epoch: int | None) -> None:
        """An epoch begins.

        Args:
            snapshot: copies the state as it is now.
            saved_epoch: the checkpoint on disk that holds the same; None: there is none.
        """
        self._saved_epoch, self._kept = saved_epoch, None
        if saved_epoch is not None or self._is_large:
            return
        kept = snapshot()
        self._is_large = _n_bytes([kept.model, kept.trainer, kept.transforms]) > LARGEST_KEPT_BYTES
        self._kept = None if self._is_large else kept

    def go_back(self) -> None:
        """Undo what the epoch did to weights, trainer and transforms.

        Raises:
            CheckpointError: the checkpoint was damaged on disk.
        """
        checkpoint = self._kept if self._saved_epoch is None else self._store.load(self._saved_epoch)
        assert checkpoint is not None
        restore(checkpoint, self._trainer, self._assembly)


def _n_bytes(state: Any) -> int:
    if isinstance(state, Mapping):
        return sum(map(_n_bytes, state.values()))
    if isinstance(state, (list, tuple)):
        return sum(map(_n_bytes, state))
    return int(state.nbytes) if isinstance(state, (np.ndarray, torch.Tensor)) else 0
