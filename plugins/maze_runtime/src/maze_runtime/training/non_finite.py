"""What every trainer says when an update has no finite result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from maze_kernel.errors import NonFiniteError


def non_finite_update(
    where: str,
    batch: Mapping[str, np.ndarray] | None,
    *,
    owner: str,
    what: str = "the loss or its gradient",
) -> NonFiniteError:
    """The error to raise; no weight has been changed by the update.

    Args:
        where: the update, e.g. "update 3 of epoch 1".
        batch: what it learnt from, by name; saved in the run directory. None: not known.
        owner: the distribution.
        what: is not finite.
    """
    look = "" if batch is None else ", or look at the batch saved in the run directory"
    return NonFiniteError(
        f"{what} is not finite; no weight was changed by it",
        received=f"NaN or infinity in {where}",
        owner=owner,
        help=f"lower trainer.lr, set trainer.max_grad_norm{look}",
        batch=batch,
    )
