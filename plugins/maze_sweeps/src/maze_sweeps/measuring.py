"""The value of the sweep's metric in what a run reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_kernel.catalog import nearest
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.training.metric import unknown_metric, wrapped_tags

if TYPE_CHECKING:
    from maze_runtime.series.run_actor import RunReport
    from maze_sweeps.sweep_reading import LoadedSweep


def value_of(sweep: LoadedSweep, report: RunReport, is_known: bool = False) -> float | None:
    """The value that a report has; None where nothing was evaluated, or nothing happened that it tells of.

    Args:
        is_known: an earlier report had one.

    Raises:
        RequestError: something was, and there is no such statistic.
    """
    if not report.evaluation and not sweep.metric.of_training:
        return None
    try:
        return sweep.metric.of(report.train, report.evaluation or None, (sweep.metric.name,) if is_known else ())
    except RequestError:
        raise no_such_metric(sweep, report) from None


def no_such_metric(sweep: LoadedSweep, report: RunReport) -> RequestError:
    """The error that names the statistics there are."""
    tag = sweep.metric.tag
    known = [*sorted(report.evaluation), *(f"train_{name}" for name in sorted(report.train))]
    error = RequestError(
        f"no statistic is called {tag!r}",
        expected=wrapped_tags(known) or "none: the run has reported no statistics",
        option="metric",
        nearest=nearest(tag, known),
        help="begin a new sweep with a metric that there is; this one has stopped",
    )
    return sweep.locate(error)


def is_about_metric(sweep: LoadedSweep, error: MazeError) -> bool:
    """Whether a run has failed because its experiment selects by the sweep's metric and does not measure it."""
    return error.what == getattr(unknown_metric(sweep.metric.tag, ()), "what", None)
