"""Choices drawn in C++ while updates are compiled: for a step's few rows, calls of NumPy take longer than its work."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from maze_runtime.models.processor import HAS_VECTORS
from maze_runtime.native.library import build_library

SOURCE = Path(__file__).with_name("choices.cpp")


@cache
def choices_library() -> ctypes.CDLL | None:
    """`choices.cpp`, built once a process; None where that is not possible."""
    return build_library(SOURCE)


def can_draw() -> bool:
    """Whether choices are drawn in C++: not without a compiler, nor with vectors of under 256 bits."""
    return HAS_VECTORS and choices_library() is not None


class ChoiceSampler:
    """Draws from softmax(logits) by the Gumbel-max trick, with the random numbers that NumPy's way would draw.

    For one thread, as a policy is.

    Args:
        sizes: of K independent choices, whose logits stand one behind the other.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        library = choices_library()
        assert library is not None, "ask `can_draw`"
        self._draw = library.draw_choices
        self._draw.restype = ctypes.c_int32
        self._sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self._shape, self._n_logits = (len(sizes), max(sizes)), sum(sizes)
        self._n_rows = -1

    def __call__(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        """Logits (B, L) to the numbers (B, K) of the choices, int64, which the next call overwrites.

        None where a choice is masked throughout.
        """
        if len(logits) != self._n_rows:
            self._prepare(len(logits))
        self._logits[...] = logits
        rng.standard_exponential(out=self._noise, dtype=np.float32)
        return None if self._draw(self._argument) else self._taken

    def _prepare(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._logits = np.empty((n_rows, self._n_logits), np.float32)
        self._noise = np.empty((n_rows, *self._shape), np.float32)
        self._taken = np.empty((n_rows, self._shape[0]), np.int64)
        n_choices, width = self._shape
        told = _Choices(
            n_rows=n_rows,
            n_choices=n_choices,
            width=width,
            sizes=self._sizes,
            logits=self._logits.ctypes.data,
            noise=self._noise.ctypes.data,
            taken=self._taken.ctypes.data,
        )
        self._argument = ctypes.byref(told)


class _Choices(ctypes.Structure):
    """`Choices` of `choices.cpp`."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("n_rows", ctypes.c_int64),
        ("n_choices", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("logits", ctypes.c_void_p),
        ("noise", ctypes.c_void_p),
        ("taken", ctypes.c_void_p),
    ]
