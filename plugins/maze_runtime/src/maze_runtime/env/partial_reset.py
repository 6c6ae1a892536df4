"""Whether a batch that is asked to reset some of its environments leaves the others alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from maze_kernel.errors import EnvError, MazeWarning

Result = TypeVar("Result")
Observation = Mapping[str, np.ndarray]


class PartialResets:
    """Watches the first reset of a batch that is meant for some of its rows, and warns where it changed the others.

    Args:
        kind: what the rows are, "environments" or "games".
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._was_seen = False

    def watch(
        self,
        reset: Callable[[], Result],
        ended: np.ndarray,
        before: Callable[[], Observation],
        after: Callable[[Result], Observation],
    ) -> Result:
        """Reset, and return what that returned.

        Args:
            reset: resets the rows that ended.
            ended: (N,) bool.
            before: shows the observations before it, (N, …) each.
            after: shows those in its result.

        Raises:
            EnvError: they have no longer a row for each.
        """
        if self._was_seen or ended.all():
            return reset()
        self._was_seen = True
        kept = {name: np.array(array) for name, array in before().items()}
        result = reset()
        shown = {name: np.asarray(array) for name, array in after(result).items()}
        for name, array in kept.items():
            if shown[name].shape != array.shape:
                raise EnvError(
                    f"the batched observation {name!r} has another shape where some {self._kind} are reset",
                    received=f"shape {shown[name].shape}",
                    expected=f"shape {array.shape}: all rows, those of the mask begun anew",
                )
        if changed := [name for name, array in kept.items() if not _is_same(array[~ended], shown[name][~ended])]:
            warnings.warn(
                f'reset(options={{"reset_mask": …}}) changed {", ".join(map(repr, changed))} of {self._kind} that have'
                f" not ended: if it resets more than the rows of the mask, other episodes are cut unseen",
                MazeWarning,
                stacklevel=2,
            )
        return result


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=np.issubdtype(one.dtype, np.inexact))
