"""Statistics of observations from a file: what a run wrote into its `normalization.json`, or another program as JSON.

{"observation": {"mean": [0.1, 2.0], "std": [1.0, 4.0]}, "position": {"min": 0.0, "max": 8.0}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.errors import RequestError
from maze_wrappers.running_statistics import RunningMoments, RunningRange, RunningStatistics

_FILE = "normalization.json"
_FORMS = "mean and std, min and max, or what normalization.json of a run holds"


def read_stored(path: str, owner: str) -> dict[str, Mapping[str, Any]]:
    """Statistics by observation key.

    Args:
        path: a run directory, or a JSON file.
        owner: for messages.

    Raises:
        RequestError: there is no such file, or it holds something else.
    """
    file = Path(path) / _FILE if Path(path).is_dir() else Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        expected = f"a JSON file, or a run with a {_FILE}"
        raise _refused(f"there are no statistics in {path}", owner, expected=expected) from None
    except (OSError, ValueError) as error:
        raise _refused(f"the statistics in {file} cannot be read: {error}", owner) from error
    tables = _tables(data)
    if tables is None or not all(isinstance(table, Mapping) for table in tables.values()):
        raise _refused(f"{file} holds no statistics of observations", owner, expected=f"by observation key {_FORMS}")
    return tables


def _tables(data: Any) -> dict[str, Mapping[str, Any]] | None:
    """By key, whichever of the two forms it is."""
    if not isinstance(data, Mapping):
        return None
    if "transforms" not in data:
        return dict(data)
    found: dict[str, Mapping[str, Any]] = {}
    for transform in data["transforms"]:
        statistics = transform.get("statistics", {})
        for kind in ("manual", "estimated"):
            found |= statistics.get(kind, {})
    return found


def give_stored(
    statistics: RunningStatistics, name: str, table: Mapping[str, Any], shape: Any, owner: str, *, n_samples: int
) -> None:
    """Let the statistics of one key go on from stored ones.

    Args:
        name: of the key.
        shape: of its observations.
        n_samples: as how many the stored ones count that do not say it.

    Raises:
        RequestError: they were made with another strategy, or do not fit the shape.
    """
    try:
        arrays = {part: np.asarray(value, np.float64) for part, value in table.items()}
        state = _as_state(statistics, arrays, n_samples)
    except (TypeError, ValueError) as error:
        raise _refused(f"the stored statistics of {name!r} are not numbers: {error}", owner) from error
    if state is None:
        raise _refused(
            f"the stored statistics of {name!r} do not fit the strategy {type(statistics).__name__}",
            owner,
            received=", ".join(table),
            expected=", ".join(statistics.state_dict()),
        )
    for value in state.values():
        if not fits_by_broadcast(np.shape(value), tuple(shape)):
            raise _refused(
                f"the stored statistics of {name!r} do not fit its shape",
                owner,
                received=str(np.shape(value)),
                expected=f"one number, or such that fit {tuple(shape)}",
            )
    statistics.load_state_dict(state)


def _as_state(statistics: RunningStatistics, table: Mapping[str, np.ndarray], n_samples: int) -> dict[str, Any] | None:
    """As the strategy saves itself; None where the table does not say enough."""
    if table.keys() == statistics.state_dict().keys():
        return dict(table)
    if {"offset", "scale"} <= table.keys():  # values that were given by hand
        low, scale = table["offset"], table["scale"]
        table = {"mean": low, "std": scale, "min": low, "max": low + scale}
    count = float(table.get("count", n_samples))
    if type(statistics) is RunningMoments and {"mean", "std"} <= table.keys():
        return {"count": count, "mean": table["mean"], "m2": count * table["std"] ** 2}
    if type(statistics) is RunningRange and {"min", "max"} <= table.keys():
        return {"count": count, "min": table["min"], "max": table["max"]}
    return None


def fits_by_broadcast(found: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of the first shape is broadcast to the second."""
    try:
        return np.broadcast_shapes(found, shape) == shape
    except ValueError:
        return False


def _refused(what: str, owner: str, **details: Any) -> RequestError:
    return RequestError(
        what,
        option="statistics_from",
        owner=owner,
        help='write statistics_from = "RUN" of a run with the same observations, or leave it out to estimate them',
        **details,
    )
