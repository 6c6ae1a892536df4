"""The file of a sweep: which experiment, how many trials, what is better, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import attrs

from maze_kernel.config.paths import check_run_name
from maze_kernel.selection import Selection
from maze_kernel.validators import above, at_least, optional


def _check_seeds(_instance: object, _attribute: object, seeds: int | Sequence[int]) -> None:
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError("at least one seed is needed")
    elif not seeds or min(seeds) < 0:
        raise ValueError("seeds are integers from 0, and there is one at least")
    elif len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands there twice")


@attrs.frozen(kw_only=True)
class ConfirmOptions:
    """What is trained again after the search."""

    top: int = attrs.field(default=3, validator=at_least(1))
    """How many of the best trials."""
    seeds: int | tuple[int, ...] = attrs.field(default=10, validator=_check_seeds)
    """How many seeds, the next ones after those of the search; or a list of seeds, none of them among those."""


@attrs.frozen(kw_only=True)
class SweepFile:
    """A sweep, as its file says."""

    experiment: str
    """The experiment's file, relative to that of the sweep."""
    name: str | None = attrs.field(default=None, validator=attrs.validators.optional(check_run_name))
    """Names the folder of the sweep; unset: the experiment's name."""
    n_trials: int = attrs.field(default=0, validator=at_least(0))
    """How many trials; 0: as many as the searcher has."""
    seeds: int | tuple[int, ...] = attrs.field(default=1, validator=_check_seeds)
    """Each trial is trained with so many seeds, from 1 on, or with those of a list; the first one says whether to go on."""  # noqa: E501
    metric: str | None = None
    """Statistic to maximise, or to minimise where a minus stands before it; unset: what `[evaluation]` of the experiment says."""  # noqa: E501
    objective: Literal["mean", "iqm", "min"] = "mean"
    """A trial's value from those of its seeds: their mean, their interquartile mean, or the worst of them."""
    value: Literal["best", "last"] = "best"
    """Which evaluation of a run counts."""
    seed: int = attrs.field(default=0, validator=at_least(0))
    """Of the searcher."""
    timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0)))
    """Deadline of what lies between two evaluations of a run; unset: none."""
    searcher: Annotated[Selection, "searcher"] | None = None
    """What chooses the trials; unset: the default one, random search."""
    workers: Annotated[Selection, "workers"] | None = None
    """The pool that trains whole runs; unset: the default one, with a worker a processor."""
    confirm: ConfirmOptions | None = None
    """What is trained again on seeds that the search never saw; unset: nothing."""
    space: Mapping[str, Any]
    """What may be chosen."""

    @property
    def search_seeds(self) -> tuple[int, ...]:
        """The seeds of every trial, the watched one first."""
        return tuple(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else self.seeds

    @property
    def confirm_seeds(self) -> tuple[int, ...]:
        """The seeds that the best trials are trained again with."""
        if self.confirm is None:
            return ()
        if not isinstance(self.confirm.seeds, int):
            return self.confirm.seeds
        first = max(self.search_seeds) + 1
        return tuple(range(first, first + self.confirm.seeds))
