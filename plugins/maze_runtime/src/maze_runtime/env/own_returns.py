"""Returns of single actors, where an environment pays by their differences (`StructuredSpaces.pays_differences`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform


@runtime_checkable
class ObservesReturns(Protocol):
    """A transform that learns from returns; the rewards that `observe_step` shows it there are sums over all actors."""

    def observe_returns(self, returns: np.ndarray) -> None:
        """Episodes have ended: what the actor of each decision was paid from it on, undiscounted, (D,) float64.

        Called while training, after `observe_step` and before `reward` of the same step.
        """
        ...


def observer_of_returns(transform: Transform, inner: StructuredSpaces) -> ObservesReturns | None:
    """The transform, where it learns from returns and the environment inside pays by their differences."""
    return transform if inner.pays_differences and isinstance(transform, ObservesReturns) else None


def own_returns(divided: Iterable[Any]) -> np.ndarray:
    """(D,) float64: of all decisions of these episodes, of which each is given as `get_actor_rewards` does."""
    # G_d = Σ_{k ≥ d} R_k
    return np.concatenate([np.cumsum(np.asarray(rewards, np.float64)[::-1])[::-1] for rewards in divided])
