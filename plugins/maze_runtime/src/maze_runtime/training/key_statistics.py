"""Statistics of an update by name, from the numbers it returned of each policy key."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from maze_kernel.contracts.env import PolicyKey


def named_by_key(names: Sequence[str], keys: Sequence[PolicyKey], numbers: Tensor) -> dict[str, float]:
    """Means over the policy keys and, where there are several, the numbers of each, as `name/key`, behind them.

    Args:
        names: S statistics.
        keys: K policy keys.
        numbers: (K · S,), all of the first key, then all of the second.
    """
    by_key = numbers.reshape(len(keys), len(names))
    named = dict(zip(names, by_key.mean(dim=0).tolist(), strict=True))
    if len(keys) > 1:
        for key, row in zip(keys, by_key.tolist(), strict=True):
            named |= {f"{name}/{key}": value for name, value in zip(names, row, strict=True)}
    return named
