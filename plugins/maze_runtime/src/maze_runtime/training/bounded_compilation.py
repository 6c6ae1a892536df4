"""Whether an update is compiled at all: large ones, and ones the compiler refuses, are run eagerly.

What the compiler needs grows faster than what it is given: an update of 18 000 tensor operations became a C++ file of
58 674 lines, with which the compiler was not done in 13 minutes. Operations are counted before anything is compiled.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from maze_kernel.errors import MazeWarning
from maze_runtime.models.garbage import nothing_collected

MOST_OPERATIONS = 3000
"""Tensor operations of losses and gradients that are still compiled; those of the shipped examples have 200 to 450."""


class BoundedCompilation:
    """Runs an update compiled, or eagerly once compiling it was given up.

    Attributes:
        is_settled: it is compiled, or never will be.
        is_eager: it never will be.
        seconds: spent until then.
    """

    def __init__(self) -> None:
        self.is_settled = False
        self.seconds = 0.0
        self.is_eager = False

    def __call__(
        self, compiled: Callable[[], Tensor], eager: Callable[[], Tensor], losses: Callable[[], object]
    ) -> Tensor:
        """Take one update.

        Args:
            compiled: takes it in compiled code; the first call compiles.
            eager: takes the same one.
            losses: computes its losses and their gradients and changes nothing; only called before the first update.
        """
        if self.is_eager:
            return eager()
        start = time.perf_counter()
        # The compiler makes millions of objects that stay, and looking through them again and again takes a fifth of it
        with nullcontext() if self.is_settled else nothing_collected():
            reason = None if self.is_settled else _not_loaded() or _too_large(losses)
            if reason is None:
                try:
                    result = compiled()
                except Exception as error:
                    reason = _compiler_says(error)
                    if reason is None:
                        raise
                else:
                    self._settle(start)
                    return result
        self.is_eager = True
        self._settle(start)
        warnings.warn(f"compile = true: {reason}; updates run eagerly", MazeWarning, stacklevel=2)
        return eager()

    def _settle(self, start: float) -> None:
        if not self.is_settled:
            self.is_settled = True
            self.seconds = time.perf_counter() - start


class _Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts tensor operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n_operations += 1
        return function(*args, **(kwargs or {}))


def _not_loaded() -> str | None:
    """Why there is no compiler: its cache folder cannot be made, say, which torch wants as soon as it is imported."""
    try:
        import torch._dynamo  # noqa: F401
    except Exception as error:
        return f"the compiler cannot be loaded: {type(error).__name__}: {error}"
    return None


def _too_large(losses: Callable[[], object]) -> str | None:
    with torch.random.fork_rng(), _Count() as count:
        losses()
    if count.n_operations <= MOST_OPERATIONS:
        return None
    return f"the update has {count.n_operations} tensor operations; more than {MOST_OPERATIONS} take minutes to compile"


def _compiler_says(error: Exception) -> str | None:
    """The first line of what the compiler complains about, None where the error is not its own.

    An update reads and writes no file, so an OSError is the compiler's, too.
    """
    from torch._dynamo.exc import TorchDynamoException

    if not isinstance(error, (OSError, TorchDynamoException)):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"the compiler failed with {type(error).__name__}: {lines[0] if lines else 'no message'}"
