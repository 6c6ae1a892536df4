"""Action masks: how a forbidden choice is written into logits, and the error where nothing is left to choose.

A masked logit is large, negative and finite: its probability is exactly zero in float32 and no gradient becomes NaN.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from maze_kernel.errors import EnvError

MASKED_LOGIT = -1e9
"""The logit of a forbidden choice."""

MASKED_BELOW = -1e7
"""From here on a logit counts as forbidden, whatever was added to it since."""


class MaskError(EnvError):
    """An action mask forbids every choice of a head."""


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits (B, L) with `MASKED_LOGIT` where `mask` (B, L), bool or number, is zero."""
    if torch.compiler.is_compiling() and mask.dtype != torch.bool:
        # Code that is made for processors takes comparisons of bytes apart, and those of floats sixteen at a time.
        return torch.where(mask.to(logits.dtype) != 0, logits, MASKED_LOGIT)
    return logits.masked_fill(mask == 0, MASKED_LOGIT)


def mask_logits_numpy(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Like `mask_logits`, in place where possible."""
    np.putmask(logits, np.logical_not(mask), MASKED_LOGIT)
    return logits


def check_rows(logits: np.ndarray) -> None:
    """Refuse logits (..., L) in which a row is masked throughout.

    Raises:
        MaskError: names the first such row; `ActionDistribution` adds the head.
    """
    if logits.min(initial=0.0) > MASKED_BELOW:
        return
    masked = np.maximum.reduce(logits, -1) <= MASKED_BELOW
    if np.count_nonzero(masked):
        index = tuple(int(position) for position in np.argwhere(masked)[0])
        raise MaskError(
            "an action mask forbids every choice",
            received=f"a mask of zeros in row {index[0] if len(index) == 1 else index} of the batch",
            expected="at least one allowed choice",
            help="allow one choice (a no-op, say) in every state, or end the episode there",
        )
