"""What an experiment was written as, before presets and defaults: other settings are laid over that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maze_kernel.selection import Selection

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment


def written_tables(loaded: LoadedExperiment) -> dict[str, Any]:
    """The data of an experiment, without its overrides; a component that Python named by its name alone is a table."""
    mode = {"vector": loaded.data["vector"]} if "vector" in loaded.data else {}  # which stays a name in its table
    tables: dict[str, Any] = _with_tables(loaded.data, loaded.experiment)
    return tables | mode


def _with_tables(data: Any, chosen: Any) -> Any:
    """The data, whose names are tables where the checked value has a selection."""
    if isinstance(data, Mapping):
        parts = chosen if isinstance(chosen, Mapping) else {key: getattr(chosen, str(key), None) for key in data}
        return {key: _with_tables(part, parts.get(key)) for key, part in data.items()}
    if isinstance(data, (list, tuple)):
        return [_with_tables(part, chosen[0] if isinstance(chosen, tuple) and chosen else None) for part in data]
    return {"use": data} if isinstance(data, str) and isinstance(chosen, Selection) else data
