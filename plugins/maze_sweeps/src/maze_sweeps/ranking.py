"""Which trial is best."""

from __future__ import annotations

from collections.abc import Iterable

from maze_sweeps.trials import SweepTrial


def best_first(trials: Iterable[SweepTrial], minimize: bool) -> list[SweepTrial]:
    """The finished trials by the value that the search has measured; of equal ones the earlier first."""
    done = [trial for trial in trials if trial.state == "done" and trial.value is not None]
    return sorted(done, key=lambda trial: (_rank(trial.value, minimize), trial.number))


def best_trial(trials: Iterable[SweepTrial], minimize: bool) -> SweepTrial | None:
    """The best by its confirmed value, where any has one; None where no trial is finished."""
    done = best_first(trials, minimize)
    confirmed = [trial for trial in done if trial.confirmed is not None]
    if confirmed:
        return min(confirmed, key=lambda trial: (_rank(trial.confirmed, minimize), trial.number))
    return done[0] if done else None


def in_order(trials: Iterable[SweepTrial], minimize: bool) -> list[SweepTrial]:
    """All trials: confirmed ones, then finished ones, the best first, then the others by number."""
    done = best_first(trials := list(trials), minimize)
    confirmed = sorted((t for t in done if t.confirmed is not None), key=lambda t: _rank(t.confirmed, minimize))
    others = [trial for trial in trials if trial not in done]
    return [*confirmed, *(trial for trial in done if trial.confirmed is None), *others]


def _rank(value: float | None, minimize: bool) -> float:
    assert value is not None, "only trials with a value are ranked"
    return value if minimize else -value
