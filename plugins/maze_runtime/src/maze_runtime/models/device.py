"""Where tensors live: turns the option `device` into a `torch.device`, and sizes thread pools to the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from threadpoolctl import ThreadpoolController

from maze_kernel.errors import RequestError

SMALL_WORK = 20_000_000
"""Multiply-adds (parameters times rows); below this, handing work to a second thread costs what it saves."""


def resolve_device(name: str) -> torch.device:
    """The device behind "auto", "cpu", "cuda" or "cuda:1".

    Raises:
        RequestError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise RequestError(
            f"unknown device '{name}'", received=repr(name), expected='"auto", "cpu", "cuda" or "cuda:1"'
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise RequestError(
            f"device '{name}' is not available on this machine",
            received=f"{torch.cuda.device_count()} CUDA devices",
            help='use device = "auto" to take a GPU only where there is one',
        )
    return device


@contextmanager
def threads_for(n_parameters: int, n_rows: int) -> Iterator[None]:
    """Run torch on one thread while the block works with a small model on few rows; else on all of its threads.

    NumPy's OpenBLAS, which acts for small models on few rows at a time, always gets one.

    Args:
        n_parameters: of the model.
        n_rows: samples a gradient step.
    """
    before = torch.get_num_threads()
    if n_parameters * n_rows < SMALL_WORK:
        torch.set_num_threads(1)
    try:
        with _numpy_blas().limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _numpy_blas() -> ThreadpoolController:
    return ThreadpoolController().select(internal_api="openblas")
