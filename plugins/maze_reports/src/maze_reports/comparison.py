"""What `maze compare` works out: scores, curves and intervals of groups, and which is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_kernel.validators import one_of
from maze_reports.aggregate import Aggregate, aggregates, normalized
from maze_reports.curves import carried_forward, common_grid, first_reaching, mean_over
from maze_reports.grouping import Difference, RunGroup, differences, group_runs
from maze_reports.improvement import Improvement, improvements, improvements_on
from maze_reports.metric import ChosenMetric, unknown_metric
from maze_reports.runs import RunEntry
from maze_runtime.series.bootstrap import (
    ConfidenceInterval,
    bootstrap_band,
    bootstrap_interval,
    interquartile_mean,
    mean,
)

AXES = {"env_steps": "environment steps", "wall_seconds": "seconds", "epoch": "epochs"}
FINALS = {"last": "last value", "best": "best value", "auc": "mean over the training"}


@attrs.frozen(kw_only=True)
class CompareOptions:
    """How runs are compared."""

    metric: str | None = None
    """The statistic, as in `[evaluation] metric`; None: the one by which the runs select their best models."""
    by: str | None = None
    """A setting whose value alone makes the groups, e.g. "trainer.lr"."""
    x: str | None = attrs.field(default=None, validator=attrs.validators.optional(one_of(AXES)))
    """The axis of the curves: "env_steps", "wall_seconds" or "epoch"; None: steps, or epochs where a run took none."""
    final: str = attrs.field(default="last", validator=one_of(FINALS))
    """What counts as the score of a run: its last value, its best, or the area under its curve by its width."""
    threshold: float | None = None
    """How long does it take to reach this value?"""
    references: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    """Environment to the values that become 0 and 1 where several environments are put together."""


@attrs.frozen(kw_only=True, eq=False)
class ScoredRun:
    """One run of a comparison.

    Attributes:
        axis, values: (E,) where it was measured, finite values only; empty where it never was.
        score: by `--final`; None where it was never measured.
        reached: place at which it reached the threshold; infinite: never; None: no threshold was given.
    """

    run: RunEntry
    axis: np.ndarray
    values: np.ndarray
    score: float | None
    reached: float | None


@attrs.frozen(kw_only=True, eq=False)
class GroupResult:
    """One group of a comparison. Runs that failed are among its runs; those that were never measured have no score.

    Attributes:
        states: how many of its runs are in which state.
        scores: (n,) of the runs that have one.
        grid: (G,) places of the curve, from where all runs with a score were measured.
        curve: (G,) interquartile mean.
        band: its interval at each place; None with fewer than five runs.
    """

    group: RunGroup
    runs: tuple[ScoredRun, ...]
    states: Mapping[str, int]
    scores: np.ndarray
    iqm: float | None
    mean: float | None
    iqm_interval: ConfidenceInterval | None
    mean_interval: ConfidenceInterval | None
    grid: np.ndarray
    curve: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None

    @property
    def n(self) -> int:
        """Runs, whatever became of them."""
        return len(self.runs)


@attrs.frozen(kw_only=True, eq=False)
class Comparison:
    """Everything that is said about a set of runs.

    Attributes:
        x: the axis of the curves, one of `AXES`.
        aggregates: over all environments; empty without references for each of several.
        differences: settings in which groups differ, at most forty.
        n_differences: how many there are.
    """

    options: CompareOptions
    metric: ChosenMetric
    x: str
    groups: tuple[GroupResult, ...]
    improvements: tuple[Improvement, ...]
    aggregates: tuple[Aggregate, ...]
    differences: tuple[Difference, ...]
    n_differences: int

    @property
    def tasks(self) -> tuple[str, ...]:
        """The environments."""
        return tuple(dict.fromkeys(result.group.task for result in self.groups))

    @property
    def n_runs(self) -> int:
        """All runs."""
        return sum(result.n for result in self.groups)


def compare_runs(runs: Sequence[RunEntry], options: CompareOptions | None = None) -> Comparison:
    """Compare runs.

    Raises:
        RequestError: no run has the statistic or the setting, or a reference is of no environment of theirs.
    """
    options = options or CompareOptions()
    metric = chosen_metric(runs, options)
    groups = group_runs(runs, options.by)
    x = options.x or _default_axis([run for group in groups for run in group.runs])
    results = [
        result for task in dict.fromkeys(g.task for g in groups) for result in _task(task, groups, metric, x, options)
    ]
    _check_references(options, results)
    found, n_differences = differences([result.group for result in results])
    by_task = _scores(results)
    together = aggregates(by_task, options.references)
    pairs = [pair for task, scores in by_task.items() for pair in improvements_on(task, scores, metric.minimize)]
    if together:
        pairs += improvements("", normalized(by_task, options.references))
    return Comparison(
        options=options,
        metric=metric,
        x=x,
        groups=tuple(results),
        improvements=tuple(pairs),
        aggregates=tuple(together),
        differences=tuple(found),
        n_differences=n_differences,
    )


def chosen_metric(runs: Sequence[RunEntry], options: CompareOptions) -> ChosenMetric:
    """What was asked for, or what all runs select their best model by.

    Raises:
        RequestError: no run has it.
    """
    if options.metric is not None:
        metric = ChosenMetric.parse(options.metric)
    else:
        own = {run.metric for run in runs}
        metric = own.pop() if len(own) == 1 else ChosenMetric()
    if all(run.series(metric) is None for run in runs):
        raise unknown_metric(metric, [run.table for run in runs])
    return metric


def measured(run: RunEntry, metric: ChosenMetric, x: str) -> tuple[np.ndarray, np.ndarray]:
    """Axis and values of a run, finite ones only."""
    series = run.series(metric)
    if series is None:
        return np.empty(0), np.empty(0)
    finite = np.isfinite(series.value)
    return series.axis(x)[finite], series.value[finite]


def _default_axis(runs: Sequence[RunEntry]) -> str:
    """Environment steps; epochs, which all have, where some run took none, as those that learn from recorded episodes.

    Runs that never wrote statistics decide nothing.
    """
    return "env_steps" if all(run.n_env_steps for run in runs if len(run.table)) else "epoch"


def _task(
    task: str, groups: Sequence[RunGroup], metric: ChosenMetric, x: str, options: CompareOptions
) -> list[GroupResult]:
    """The groups on one environment: their curves share a grid, their areas a range."""
    own = [group for group in groups if group.task == task]
    points = {run.path: measured(run, metric, x) for group in own for run in group.runs}
    axes = [axis for axis, _ in points.values() if len(axis)]
    if axes and x == "env_steps" and not any(axis.any() for axis in axes):
        raise RequestError(
            f"the runs on {task} took no environment steps",
            received="--x env_steps",
            help="compare them with --x epoch",
        )
    grid = common_grid(axes)
    start = max((axis[0] for axis in axes), default=0.0)
    end = grid[-1] if len(grid) else 0.0
    results = []
    for group in own:
        scored = [_scored(run, *points[run.path], (start, end), metric, options) for run in group.runs]
        results.append(_result(group, scored, grid))
    return results


def _scored(
    run: RunEntry,
    axis: np.ndarray,
    values: np.ndarray,
    span: tuple[float, float],
    metric: ChosenMetric,
    options: CompareOptions,
) -> ScoredRun:
    score = None
    if len(values):
        by = {
            "last": lambda: float(values[-1]),
            "best": lambda: metric.best(values),
            "auc": lambda: mean_over(axis, values, *span),
        }
        score = by[options.final]()
    reached = None
    if options.threshold is not None:
        reached = first_reaching(axis, values, options.threshold, metric.minimize)
    return ScoredRun(run=run, axis=axis, values=values, score=score, reached=reached)


def _result(group: RunGroup, scored: Sequence[ScoredRun], grid: np.ndarray) -> GroupResult:
    with_values = [run for run in scored if run.score is not None]
    scores = np.array([run.score for run in with_values], np.float64)
    start = max((run.axis[0] for run in with_values), default=np.inf)
    grid = grid[grid >= start]
    curves = np.empty((len(with_values), len(grid)))
    for row, run in enumerate(with_values):
        curves[row] = carried_forward(run.axis, run.values, grid)
    return GroupResult(
        group=group,
        runs=tuple(scored),
        states=Counter(run.run.state.name for run in scored),
        scores=scores,
        iqm=float(interquartile_mean(scores)) if len(scores) else None,
        mean=float(scores.mean()) if len(scores) else None,
        iqm_interval=bootstrap_interval([scores], interquartile_mean),
        mean_interval=bootstrap_interval([scores], mean),
        grid=grid,
        curve=interquartile_mean(curves.T) if len(with_values) else np.empty(0),
        band=bootstrap_band(curves, interquartile_mean),
    )


def _scores(results: Sequence[GroupResult]) -> dict[str, dict[str, np.ndarray]]:
    """Task to label to scores; groups without any score are left out."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for result in results:
        by_label = found.setdefault(result.group.task, {})
        if len(result.scores):
            by_label[result.group.label] = result.scores
    return found


def _check_references(options: CompareOptions, results: Sequence[GroupResult]) -> None:
    tasks = list(dict.fromkeys(result.group.task for result in results))
    for task, (low, high) in options.references.items():
        if task not in tasks:
            raise RequestError(
                f"no run is on the environment {task!r}",
                received=f"--reference {task}={low:g}:{high:g}",
                expected=", ".join(tasks),
                nearest=nearest(task, tasks),
            )
        if low == high:
            raise RequestError(f"the two references of {task} are equal", received=f"{low:g} and {high:g}")
