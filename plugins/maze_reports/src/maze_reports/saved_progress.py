"""How far a run came by its newest checkpoint: what is known of one that wrote no statistics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from maze_runtime.run.regular_file import read_regular


@attrs.frozen(kw_only=True)
class SavedProgress:
    """What a checkpoint says of its run; nothing where there is none.

    Attributes:
        best_metric: the best value so far of what selects the best model; None where nothing was measured.
    """

    epoch: int = 0
    env_steps: int = 0
    best_metric: float | None = None


def saved_progress(run: Path) -> SavedProgress:
    """Of the newest whole checkpoint from which the run can go on."""
    for folder in sorted((run / "checkpoints").glob("epoch-*"), reverse=True):
        try:
            state = json.loads(read_regular(folder / "state.json"))["state"]
            loop, trainer = state["loop"], state["trainer"]
            return SavedProgress(
                epoch=int(loop["epoch"]), env_steps=_number(trainer, "env_steps"), best_metric=loop["best_metric"]
            )
        except (OSError, ValueError, LookupError, TypeError):  # damaged, or weights alone
            continue
    return SavedProgress()


def _number(table: Any, key: str) -> int:
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, int) else 0
