"""Whether the reward of a flat step is the sum of what its decisions are paid."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from maze_kernel.errors import MazeWarning

TOLERANCE = 1e-4
"""Part of the numbers that are summed."""


class MisdividedWarning(MazeWarning):
    """A trainer learns from rewards that have another sum than those of the environment."""


class Misdivided(NamedTuple):
    """A reward whose parts have another sum."""

    what: str
    total: float
    reward: float


@runtime_checkable
class DividesReward(Protocol):
    """Tells whether the rewards that it was asked to divide were divided whole."""

    def division_problem(self) -> Misdivided | None:
        """The first one that was not; None: all were."""
        ...


class RewardDivision:
    """Holds rewards that were divided against the sum of their parts; the first difference is a warning.

    Attributes:
        problem: what differed first; None: nothing yet.
    """

    def __init__(self) -> None:
        self.problem: Misdivided | None = None

    def compare(self, divided: Any, reward: float, divider: object, method: str) -> None:
        """Look at one flat step.

        Args:
            divided: one reward a sub-step.
            reward: the sum of what `step` returned for them.
            divider: who divided it.
            method: how it was asked.
        """
        parts = np.asarray(divided, np.float64)
        total, size = float(parts.sum()), float(np.abs(parts).sum())
        if math.isclose(total, reward, rel_tol=TOLERANCE, abs_tol=TOLERANCE * size + 1e-6) or not math.isfinite(total):
            return
        # The same text in every environment, so that it is shown once.
        what = f"what {type(divider).__name__}.{method}() gives does not sum to the reward of the flat step"
        self.problem = Misdivided(what, total, reward)
        warnings.warn(
            f"{what}: the trainer learns from other rewards than statistics show; maze check FILE --steps 1000 shows"
            " where",
            MisdividedWarning,
            stacklevel=5,
        )
