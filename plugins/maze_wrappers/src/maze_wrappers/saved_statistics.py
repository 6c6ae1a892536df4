"""Whether statistics that a run saved are those of the observation that is to go on with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.errors import RequestError
from maze_wrappers.running_statistics import RunningMoments, RunningRange, RunningStatistics
from maze_wrappers.stored_statistics import fits_by_broadcast

_BUILT_IN = (RunningMoments, RunningRange)


def require_fitting(
    running: RunningStatistics,
    name: str,
    saved: Mapping[str, Any],
    shape: tuple[int, ...] | None,
    *,
    owner: str,
    broadcasts: bool = False,
) -> None:
    """Refuse saved statistics that were made with another strategy, or from observations of another shape.

    Args:
        running: is to load them.
        name: of the observation.
        saved: a `state_dict`. What a strategy of one's own saves may have any shape.
        shape: of the observation; None: not known yet.
        owner: for the message.
        broadcasts: a file gave the statistics: one number may stand for all.

    Raises:
        RequestError: they do not fit.
    """
    if saved.keys() != running.state_dict().keys():
        raise RequestError(
            f"the saved statistics of {name!r} were made with the other strategy",
            received=", ".join(saved),
            owner=owner,
            help="keep the strategy of the run that saved them",
        )
    if shape is None or not isinstance(running, _BUILT_IN):
        return
    for part in saved.keys() - {"count"}:
        found = np.shape(saved[part])
        if not (_fits(found, shape, running.axis) or (broadcasts and fits_by_broadcast(found, shape))):
            raise RequestError(
                f"the saved statistics of {name!r} do not fit its shape",
                received=str(found),
                expected=str(shape),
                owner=owner,
                help="keep the observations and the axes of the run that saved them, or begin without its statistics",
            )


def _fits(found: tuple[int, ...], shape: tuple[int, ...], axis: tuple[int, ...]) -> bool:
    """Whether every length is the observation's, or 1 where the statistics are those of the whole axis."""
    return len(found) == len(shape) and all(
        own == wanted or (own == 1 and index in axis)
        for index, (own, wanted) in enumerate(zip(found, shape, strict=True), start=1)
    )
