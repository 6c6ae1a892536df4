"""Refuses recorded numbers that nothing can be learnt from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from maze_kernel.errors import NonFiniteError


def require_finite(episode: int, arrays: Mapping[str, np.ndarray], owner: str) -> None:
    """Refuse NaN and infinity.

    Args:
        episode: number of the episode in its recording, for the message.
        arrays: what each is, such as "observation 'x'", to (n, ...).
        owner: who reads them, for the message.

    Raises:
        NonFiniteError: names the episode, the array and the row.
    """
    for what, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            raise NonFiniteError(
                f"the {what} is not finite in episode {episode}",
                received=f"{array[row]} in decision {row}",
                owner=owner,
                help="leave the episode out of the recording, or correct it",
            )
