"""Options of the callbacks `stop-at` and `reduce-on-plateau`."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, all_of, at_least, below


@attrs.frozen(kw_only=True)
class StopAtOptions:
    """Ends a run at a value."""

    value: float
    """Value to reach."""
    metric: str | None = None
    """Statistic that is to reach it, a KPI for one, with a minus before it where less is better; unset: the one that selects the best model."""  # noqa: E501
    times: int = attrs.field(default=1, validator=at_least(1))
    """So many times in a row."""


@attrs.frozen(kw_only=True)
class ReduceOnPlateauOptions:
    """Lowers a schedule where evaluations get no better."""

    option: str = "lr"
    """Option of the trainer that is lowered; one that may be a schedule."""
    factor: float = attrs.field(default=0.5, validator=all_of(above(0), below(1)))
    """What it is multiplied by; a schedule at both ends."""
    patience: int = attrs.field(default=5, validator=at_least(1))
    """Evaluations without a better one before each step down."""
    minimum: float = attrs.field(default=0.0, validator=at_least(0))
    """It is not lowered below."""
