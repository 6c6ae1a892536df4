"""What a searcher is to a sweep: it proposes settings, hears how they do, and may give a trial up.

One process calls it, one call at a time. Trials have numbers from 0, in the order in which they were proposed, and run
in parallel: several may be proposed before the first one is finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs

from maze_sweeps.space import Draw, Space

TRIAL_STATES = ("running", "done", "pruned", "failed")
"""What a trial can be."""


@attrs.frozen(kw_only=True)
class SearchContext:
    """What a searcher is built from.

    Attributes:
        name: of the sweep.
        n_trials: how many trials are wanted; 0: as many as the searcher has.
        maximize: whether larger values are better.
        seed: what it draws follows from it and from the trials so far, also after a resume.
        folder: of the sweep, for what the searcher wants to store.
        dry_run: the trials are only shown: nothing is reported, and nothing may be stored outside of `folder`.
    """

    name: str
    space: Space
    n_trials: int
    maximize: bool
    seed: int
    folder: Path
    dry_run: bool = False


@attrs.frozen(kw_only=True)
class PastTrial:
    """A trial of a sweep that goes on.

    Attributes:
        state: one of `TRIAL_STATES`; a "running" one goes on from its checkpoint.
        value: what was told of it; None where it has none.
        reports: step and value of each report, in order, as `Searcher.report` is told.
    """

    number: int
    draw: Draw
    state: str
    value: float | None = None
    reports: Sequence[tuple[int, float]] = ()


class Searcher(Protocol):
    """Chooses the trials of one sweep; the target of a `SearcherComponent` makes it."""

    def restore(self, trials: Sequence[PastTrial]) -> None:
        """The trials there are already, in the order of their numbers; called once, before the rest, on a resume."""
        ...

    def propose(self, number: int) -> Draw | None:
        """The draw of the next trial; None: there is nothing more to try.

        Args:
            number: of the trial, the lowest that is free: one more than that of the last one, or that of a trial whose
                folder was removed, which is trained anew.
        """
        ...

    def report(self, number: int, step: int, value: float) -> bool:
        """The value of a trial after so many steps; True: give the trial up.

        Of several seeds only the first one is reported. After a resume the last report of a running trial is
        told once more, for its answer may have been lost.

        Args:
            step: environment steps; epochs where the trainer takes none, as one does that learns from recordings.
        """
        ...

    def finish(self, number: int, state: str, value: float | None) -> None:
        """How a trial ended.

        Args:
            state: "done", "pruned" or "failed"; "pruned" also where a run diverged.
            value: the objective over all seeds, or the last report of a pruned one; None where there is none.
        """
        ...

    def importances(self) -> Mapping[str, float]:
        """How much each leaf mattered, by its name, together 1; empty where it cannot be told."""
        ...

    def close(self) -> None:
        """Leave everything stored."""
        ...
