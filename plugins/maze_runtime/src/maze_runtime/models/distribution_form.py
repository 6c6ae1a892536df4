"""Whether a distribution gives one action, log-probability and entropy a row: tried out once, when it is built.

NumPy and torch would spread what has one row over all environments, in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from maze_kernel.contracts.model import Distribution
from maze_kernel.errors import SpaceError

_N_ROWS = 7


def require_a_result_a_row(head: str, space: spaces.Space[Any], distribution: Distribution, owner: str | None) -> None:
    """Refuse a distribution whose logits have no shape, or which does not give each row of logits its own result.

    What it raises here it would raise while training, too, and is left to that: not every trainer asks everything.

    Args:
        head: the action head, for the message.
        space: of the head.
        distribution: of the head.
        owner: what provides the distribution.

    Raises:
        SpaceError: naming head, distribution and owner.
    """
    shape = getattr(distribution, "logits_shape", None)
    if not (isinstance(shape, tuple) and len(shape) == 1 and isinstance(shape[0], (int, np.integer))):
        raise _refusal(head, distribution, owner, f"logits_shape = {shape}", "logits_shape = (L,), a tuple")
    for name, expected, result in _results(space, distribution, int(shape[0])):
        if tuple(getattr(result, "shape", ())) != expected:
            given = getattr(result, "shape", None)
            received = f"{name}: " + (type(result).__name__ if given is None else f"shape {tuple(given)}")
            raise _refusal(head, distribution, owner, received, f"shape {expected} for {_N_ROWS} rows of logits")


def _results(
    space: spaces.Space[Any], distribution: Distribution, n_logits: int
) -> list[tuple[str, tuple[int, ...], Any]]:
    """Name of a method, the shape that its result has to have, and the result; what raises is left out."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 0.1, (_N_ROWS, n_logits)).astype(np.float32)
    actions, numbers = (_N_ROWS, *(space.shape or ())), (_N_ROWS,)
    tensor = torch.from_numpy(logits)

    def action() -> torch.Tensor:
        return distribution.sample(tensor, torch.Generator().manual_seed(0))

    calls: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
        "sample_numpy": (actions, lambda: distribution.sample_numpy(logits.copy(), rng)),
        "mode_numpy": (actions, lambda: distribution.mode_numpy(logits.copy())),
        "sample": (actions, action),
        "mode": (actions, lambda: distribution.mode(tensor)),
        "log_prob": (numbers, lambda: distribution.log_prob(tensor, action())),
        "entropy": (numbers, lambda: distribution.entropy(tensor)),
        "kl": (numbers, lambda: distribution.kl(tensor, tensor)),
    }
    found = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for name, (expected, call) in calls.items():
            try:
                result = call()
            except Exception:
                continue
            found.append((name, expected, result))
    return found


def _refusal(head: str, distribution: Distribution, owner: str | None, received: str, expected: str) -> SpaceError:
    kind = type(distribution)
    return SpaceError(
        f"action head {head!r}: distribution {kind.__qualname__} gives results of another shape",
        received=received,
        expected=expected,
        owner=owner or kind.__module__,
        help="see Distribution in maze_kernel.contracts.model; maze_testing.distributions.check_distribution tests it",
    )
