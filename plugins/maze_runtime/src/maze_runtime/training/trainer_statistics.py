"""What `train_epoch` returned, checked where its owner is known: loggers and the loop read it much later."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from maze_kernel.contracts.trainer import Statistics
from maze_kernel.errors import ComponentError
from maze_kernel.selection import Selection

_EXPECTED = "a number, an array of numbers, a text or a matplotlib figure"


def checked_statistics(returned: Any, trainer: Selection) -> Statistics:
    """The statistics of a trainer, tensors as numbers and arrays, whatever is one number as one of Python's.

    Raises:
        ComponentError: it returned no statistics, or one under no tag or without a meaning; names the trainer.
    """
    if not isinstance(returned, Mapping):
        raise _refusal(trainer, f"returned {type(returned).__name__}", "a dict of statistics, tag to value")
    for tag in returned:
        if not isinstance(tag, str):
            raise _refusal(trainer, f"returned a statistic under {tag!r:.60}", 'a tag, such as "MyEvents/loss"')
    return {tag: _value(tag, value, trainer) for tag, value in returned.items()}


def _value(tag: str, value: Any, trainer: Selection) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (
            value.item() if value.dim() == 0 else (value if value.dtype != torch.bfloat16 else value.float()).numpy()
        )
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if is_array or isinstance(value, (numbers.Real, str, list)) or hasattr(value, "savefig"):
        return value
    raise _refusal(trainer, f"returned {value!r:.60} for {tag}", _EXPECTED)


def _refusal(trainer: Selection, what: str, expected: str) -> ComponentError:
    return ComponentError(
        f"`train_epoch` of trainer {trainer.use!r} {what}",
        phase=f"training with trainer {trainer.use!r}",
        location=trainer.location,
        expected=expected,
        owner=trainer.owner,
        help="correct what the trainer returns",
    )
