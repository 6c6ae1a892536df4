"""Memory that one minibatch frees is kept for the next.

The C library gives free memory at the end of its heap back to the system, and asks for it anew, which then hands it
out page by page, each set to zero. Minibatches of images need, and free, some hundred MiB: on Pong this took up to an
eighth of the time, sometimes more and sometimes less, as blocks happened to lie.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

MOST_KEPT = 1 << 30
"""More free memory at the end of the heap than this, in bytes, goes back to the system at once."""
LARGEST_BLOCK = 256 << 20
"""Larger blocks than this, in bytes, come from the system and go back to it, whole, as ever."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_USUAL_BLOCK = 32 << 20
"""What the C library itself raises the second number to where a program frees large blocks; the first is twice that."""
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


@contextmanager
def freed_memory_is_kept() -> Iterator[None]:
    """Let the process keep up to `MOST_KEPT` bytes that it has freed; behind it they may go back to the system again.

    Only with the GNU C library, and not where the environment says how memory is to be kept.
    """
    limit = _limits()
    if limit is None:
        yield
        return
    limit(_MMAP_THRESHOLD, LARGEST_BLOCK)
    limit(_TRIM_THRESHOLD, MOST_KEPT)
    try:
        yield
    finally:
        limit(_MMAP_THRESHOLD, _USUAL_BLOCK)
        limit(_TRIM_THRESHOLD, 2 * _USUAL_BLOCK)


@cache
def _limits() -> Callable[[int, int], int] | None:
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _OWN_SETTINGS):
        return None
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return None
