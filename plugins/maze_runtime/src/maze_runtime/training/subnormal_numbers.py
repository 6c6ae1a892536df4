"""Numbers too small for a full mantissa, which processors work with at a tenth of their speed.

A hidden unit that no longer fires gets no gradient. Adam's mean of its gradients then shrinks by a tenth a step until
it is below 1.2e-38, and stays there, because a tenth of the smallest number is rounded to nothing: from about the 900th
step on each further step is slower, and all of them together cost TD3 on Pendulum-v1 an eighth of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALLEST = 5e-324
_ONE = 1.0  # a name, so that Python multiplies when it is asked, in whatever way the thread works then


@contextmanager
def subnormal_numbers_are_zero() -> Iterator[None]:
    """Let this thread take them for zero, and write zero for them; behind it everything is as it was before.

    Processors without this way of working go on as they are. Further threads of torch are not told: a tensor that is
    shared among several of them is treated like this in the part of the calling thread.
    """
    if _SMALLEST * _ONE == 0.0 or not torch.set_flush_denormal(True):
        yield
        return
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
