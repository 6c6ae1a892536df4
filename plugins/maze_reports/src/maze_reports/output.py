"""A comparison as plain data for `--json`, as rows for `--csv`, and as tables for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import attrs
import numpy as np

from maze_reports.aggregate import Aggregate
from maze_reports.comparison import FINALS, Comparison, GroupResult, ScoredRun
from maze_reports.improvement import Improvement
from maze_reports.listing import number
from maze_runtime.series.bootstrap import ENOUGH_RUNS, MIN_RUNS, ConfidenceInterval

CSV_COLUMNS = (
    *("group", "environment", "run", "name", "seed", "state", "score", "threshold_at", "epochs", "env_steps"),
    "wall_seconds",
)
GROUP_HEADER = ("group", "n", "IQM", "mean", "95 % of IQM", "lowest", "highest", "runs")


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Plain data; what is not a finite number is null."""
    return {
        "metric": str(comparison.metric),
        "minimize": comparison.metric.minimize,
        "x": comparison.x,
        "final": comparison.options.final,
        "threshold": comparison.options.threshold,
        "groups": [_group(result) for result in comparison.groups],
        "improvements": [
            {**attrs.asdict(pair, filter=lambda a, _: a.name != "interval"), "interval": _interval(pair.interval)}
            for pair in comparison.improvements
        ],
        "all_environments": [_aggregate(aggregate) for aggregate in comparison.aggregates],
        "n_differences": comparison.n_differences,
        "differences": [{"setting": d.setting, "values": list(d.values)} for d in comparison.differences],
    }


def run_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row a run, by `CSV_COLUMNS`; None where there is nothing to say, infinity for a threshold never reached."""
    return [
        {
            "group": result.group.label,
            "environment": result.group.task,
            "run": str(scored.run.path),
            "name": scored.run.record.name,
            "seed": scored.run.seed,
            "state": scored.run.state.name,
            "score": scored.score,
            "threshold_at": scored.reached,
            "epochs": scored.run.n_epochs,
            "env_steps": scored.run.n_env_steps,
            "wall_seconds": float(scored.run.table.wall_seconds.max()) if len(scored.run.table) else 0.0,
        }
        for result in comparison.groups
        for scored in result.runs
    ]


def as_csv(comparison: Comparison) -> str:
    """`run_rows` as CSV text with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(run_rows(comparison))
    return file.getvalue()


def group_rows(results: Sequence[GroupResult]) -> list[list[str]]:
    """The cells below `GROUP_HEADER`."""
    return [
        [
            result.group.label,
            str(result.n),
            number(result.iqm),
            number(result.mean),
            interval_text(result.iqm_interval, len(result.scores)),
            number(float(result.scores.min()) if len(result.scores) else None),
            number(float(result.scores.max()) if len(result.scores) else None),
            states_text(result),
        ]
        for result in results
    ]


def aggregate_rows(aggregates: Sequence[Aggregate]) -> list[list[str]]:
    """Group, runs, IQM, mean and interval of the normalised scores."""
    return [
        [a.label, n_text(a.n.values()), number(a.iqm), number(a.mean), interval_text(a.iqm_interval, min(a.n.values()))]
        for a in aggregates
    ]


def improvement_rows(improvements: Sequence[Improvement]) -> list[list[str]]:
    """Who, than whom, with which probability, its interval, runs of both."""
    return [
        [
            pair.label,
            pair.other,
            f"{pair.probability:.2f}",
            interval_text(pair.interval, min(pair.n, pair.n_other), digits=2),
            f"{pair.n} and {pair.n_other}",
        ]
        for pair in improvements
    ]


IMPROVEMENT_HEADER = ("better", "than", "with probability", "95 %", "n")


def threshold_rows(results: Sequence[GroupResult]) -> list[list[str]]:
    """Group, how many of its runs reached the threshold, and where: the median, and the first and the last."""
    rows = []
    for result in results:
        places = sorted(float(scored.reached) for scored in result.runs if scored.reached is not None)
        reached = [place for place in places if np.isfinite(place)]
        middle = median(places) if places else np.inf
        rows.append(
            [
                result.group.label,
                f"{len(reached)} of {result.n}",
                number(middle) if np.isfinite(middle) else "never",
                f"{number(reached[0])} … {number(reached[-1])}" if reached else "–",
            ]
        )
    return rows


def difference_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a row a setting, or a row a group where there are more groups than settings."""
    labels = [result.group.label for result in comparison.groups]
    found = comparison.differences
    if len(labels) <= max(len(found), _FEW_GROUPS):
        return ["setting", *labels], [[difference.setting, *difference.values] for difference in found]
    rows = [[label, *(d.values[index] for d in found)] for index, label in enumerate(labels)]
    return ["group", *(difference.setting for difference in found)], rows


_FEW_GROUPS = 6
_FEW_REPEATS = 3

THRESHOLD_HEADER = ("group", "reached by", "median at", "first … last")


def interval_text(interval: ConfidenceInterval | None, n: int, digits: int | None = None) -> str:
    """An interval, or why there is none; with so many digits after the point where that is said."""
    if interval is None:
        return f"none: n = {n} < {MIN_RUNS}"
    narrow = f" (narrow: n = {n} < {ENOUGH_RUNS})" if interval.is_narrow else ""
    low, high = (number(end) if digits is None else f"{end:.{digits}f}" for end in (interval.low, interval.high))
    return f"{low} … {high}{narrow}"


def states_text(result: GroupResult) -> str:
    """What became of its runs, e.g. "2 done, 1 failed"; and how many were never measured."""
    text = ", ".join(f"{count} {state}" for state, count in sorted(result.states.items()))
    unmeasured = result.n - len(result.scores)
    return f"{text}; {unmeasured} without a value" if unmeasured else text


def n_text(counts: Any) -> str:
    """Runs of each environment: one number where all have as many."""
    counts = list(counts)
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def heading(comparison: Comparison) -> str:
    """What is compared, in a line."""
    noun = "run" if comparison.n_runs == 1 else "runs"
    final = FINALS[comparison.options.final]
    return f"{comparison.n_runs} {noun} by {comparison.metric.described}: {final}"


def axis_text(comparison: Comparison) -> str:
    """Which runs keep the others from an axis of environment steps; empty where none do, or an axis was asked for."""
    runs = [(result.group.label, scored.run) for result in comparison.groups for scored in result.runs]
    idle = dict.fromkeys(label for label, run in runs if len(run.table) and not run.n_env_steps)
    if comparison.options.x is not None or not idle or not any(run.n_env_steps for _, run in runs):
        return ""
    return f"{', '.join(idle)} took no environment steps, so curves run over {comparison.x}; --x chooses another axis"


def repeats_text(result: GroupResult) -> str:
    """Which runs do not count, as others have their settings and seeds; empty where all do."""
    repeats = result.group.repeats
    if not repeats:
        return ""
    shown = ", ".join(str(run.path) for run in repeats[:_FEW_REPEATS])
    left = f" and {len(repeats) - _FEW_REPEATS} more" if len(repeats) > _FEW_REPEATS else ""
    return f"not counted in {result.group.label}, with the settings and the seed of another run: {shown}{left}"


def _group(result: GroupResult) -> dict[str, Any]:
    return {
        "label": result.group.label,
        "key": result.group.key,
        "trials": list(result.group.trials),
        "environment": result.group.task,
        "n": result.n,
        "states": dict(result.states),
        "also_differ": list(result.group.also_differ),
        "repeats": [str(run.path) for run in result.group.repeats],
        "iqm": result.iqm,
        "mean": result.mean,
        "iqm_interval": _interval(result.iqm_interval),
        "mean_interval": _interval(result.mean_interval),
        "runs": [_run(scored) for scored in result.runs],
        "curve": {
            "x": result.grid.tolist(),
            "iqm": result.curve.tolist(),
            "low": None if result.band is None else result.band[0].tolist(),
            "high": None if result.band is None else result.band[1].tolist(),
        },
    }


def _run(scored: ScoredRun) -> dict[str, Any]:
    reached = scored.reached
    return {
        "run": str(scored.run.path),
        "name": scored.run.record.name,
        "seed": scored.run.seed,
        "state": scored.run.state.name,
        "score": scored.score,
        "threshold_at": reached if reached is not None and np.isfinite(reached) else None,
    }


def _aggregate(aggregate: Aggregate) -> Mapping[str, Any]:
    return {
        "label": aggregate.label,
        "n": dict(aggregate.n),
        "iqm": aggregate.iqm,
        "mean": aggregate.mean,
        "iqm_interval": _interval(aggregate.iqm_interval),
        "mean_interval": _interval(aggregate.mean_interval),
        "profile": {"score": aggregate.thresholds.tolist(), "share_above": aggregate.profile.tolist()},
    }


def _interval(interval: ConfidenceInterval | None) -> dict[str, Any] | None:
    return None if interval is None else attrs.asdict(interval)
