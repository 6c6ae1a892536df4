"""Networks act and value in evaluation mode; they are in training mode where a gradient is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Put those of the modules that are in training mode into evaluation mode for a while.

    Then layers such as BatchNorm and Dropout make of an observation what evaluations make of it, whatever stands
    beside it in the batch, and a single one is no error.

    Args:
        modules: each by itself: `model.modules()`, or a list of that for whoever asks often.
    """
    trained = [module for module in modules if module.training]
    for module in trained:
        module.__dict__["training"] = False  # what `Module.__setattr__` comes to, which takes a microsecond
    try:
        yield
    finally:
        for module in trained:
            module.__dict__["training"] = True
