"""A comparison as sections of a page: curves and scores of each environment, who is better, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maze_reports.charts.dots import DotRow, dot_chart
from maze_reports.charts.drawing import N_COLOURS, colour
from maze_reports.charts.lines import Line, line_chart
from maze_reports.comparison import AXES, FINALS, Comparison, GroupResult
from maze_reports.output import (
    GROUP_HEADER,
    IMPROVEMENT_HEADER,
    THRESHOLD_HEADER,
    aggregate_rows,
    difference_table,
    group_rows,
    improvement_rows,
    n_text,
    repeats_text,
    states_text,
    threshold_rows,
)
from maze_reports.page import PageFigure, PageSection, PageTable
from maze_runtime.series.bootstrap import ENOUGH_RUNS, MIN_RUNS

_MAX_COLOURED = 2 * N_COLOURS
"""Of more groups the best ones have a colour and the others are grey."""
_MAX_ROWS = 40
_MAX_SHOWN = 4
"""Networks, actions, evaluations and files are shown of so many groups."""

Colours = Mapping[str, int | None]
"""Label of a group to the index of its colour; None: grey."""


def comparison_sections(comparison: Comparison) -> list[PageSection]:
    """The sections that `maze compare --html` and reports share."""
    colours = group_colours(comparison)
    sections = [_task_section(task, comparison, colours) for task in comparison.tasks]
    return [*sections, _together(comparison, colours), _differences(comparison)]


def group_colours(comparison: Comparison) -> dict[str, int | None]:
    """A group has the same colour in every picture."""
    labels = list(dict.fromkeys(result.group.label for result in comparison.groups))
    best: dict[str, float] = dict.fromkeys(labels, -np.inf)
    sign = -1.0 if comparison.metric.minimize else 1.0
    for result in comparison.groups:
        if result.iqm is not None:
            best[result.group.label] = max(best[result.group.label], sign * result.iqm)
    coloured = labels if len(labels) <= _MAX_COLOURED else sorted(labels, key=lambda name: -best[name])[:N_COLOURS]
    return {label: coloured.index(label) if label in coloured else None for label in labels}


def leading(comparison: Comparison) -> list[GroupResult]:
    """The groups that are shown in detail: all, in their order, or the best few of many."""
    if len(comparison.groups) <= _MAX_SHOWN:
        return list(comparison.groups)
    return _best_first(comparison.groups, comparison.metric.minimize)[:_MAX_SHOWN]


def named(result: GroupResult, comparison: Comparison) -> str:
    """A group by its label, and by its environment where there are several."""
    return f"{result.group.label} on {result.group.task}" if len(comparison.tasks) > 1 else result.group.label


def _best_first(results: Sequence[GroupResult], minimize: bool) -> list[GroupResult]:
    sign = -1.0 if minimize else 1.0
    return sorted(results, key=lambda result: -np.inf if result.iqm is None else sign * result.iqm, reverse=True)


def legend(colours: Colours, labels: Sequence[str]) -> list[tuple[str, str]]:
    """Colour and label; those in grey share one entry."""
    entries = [(colour(colours[label]), label) for label in labels if colours[label] is not None]
    n_grey = sum(colours[label] is None for label in labels)
    return [*entries, ("grey", f"{n_grey} more")] if n_grey else entries


def _task_section(task: str, comparison: Comparison, colours: Colours) -> PageSection:
    results = [result for result in comparison.groups if result.group.task == task]
    shown = sorted(results, key=lambda result: colours[result.group.label] is not None)
    curve = PageFigure(
        caption=f"{comparison.metric.described}",
        svg=line_chart(
            [_line(result, colours) for result in shown],
            title=f"{comparison.metric.tag} over {AXES[comparison.x]}",
            x_label=AXES[comparison.x],
        ),
        legend=legend(colours, [result.group.label for result in results]) if len(colours) > 1 else (),
    )
    ordered = _best_first(results, comparison.metric.minimize)
    final = FINALS[comparison.options.final]
    scores = PageFigure(
        caption=f"{final} of each run",
        svg=dot_chart(
            [_row(result, colours) for result in ordered[:_MAX_ROWS]], title=final, x_label=comparison.metric.tag
        ),
    )
    return PageSection(
        title=f"On {task}",
        text=[_how_to_read(results), *_repeats(results)],
        figures=[curve, scores] if sum(result.n for result in results) > 1 else [curve],
        tables=_tables(task, results, comparison),
    )


def _tables(task: str, results: Sequence[GroupResult], comparison: Comparison) -> list[PageTable]:
    tables = [PageTable(caption="Scores", header=GROUP_HEADER, rows=group_rows(results))]
    threshold = comparison.options.threshold
    if threshold is not None:
        caption = f"{threshold:g} reached, in {AXES[comparison.x]}"
        tables.append(PageTable(caption=caption, header=THRESHOLD_HEADER, rows=threshold_rows(results)))
    pairs = [pair for pair in comparison.improvements if pair.task == task]
    if pairs:
        caption = "Who is better, and how probably"
        tables.append(PageTable(caption=caption, header=IMPROVEMENT_HEADER, rows=improvement_rows(pairs)))
    return tables


def _repeats(results: Sequence[GroupResult]) -> list[str]:
    return [f"{text[0].upper()}{text[1:]}." for result in results if (text := repeats_text(result))]


def _how_to_read(results: Sequence[GroupResult]) -> str:
    n = [len(result.scores) for result in results]
    words = "A value holds until the next one is measured; nothing is smoothed."
    if max(n, default=0) > 1:
        words += " Lines and marks are interquartile means over runs."
    if max(n, default=0) > 1 and min(n) < MIN_RUNS:
        words += f" Groups with fewer than {MIN_RUNS} runs show each run as points and no interval."
    if any(MIN_RUNS <= count < ENOUGH_RUNS for count in n):
        words += f" Intervals of fewer than {ENOUGH_RUNS} runs are narrower than the 95 % that they are meant to be."
    if max(n, default=0) >= MIN_RUNS:
        words += " Bands and bars are 95 % percentile bootstrap intervals, of each place on its own."
    return words


def _line(result: GroupResult, colours: Colours) -> Line:
    index = colours[result.group.label]
    measured = [(run.axis, run.values) for run in result.runs if len(run.axis)]
    has_points = result.band is None and index is not None
    return Line(
        label=result.group.label,
        colour=index,
        x=result.grid,
        y=result.curve,
        band=result.band if index is not None else None,
        points=measured if has_points else (),
    )


def _row(result: GroupResult, colours: Colours) -> DotRow:
    interval = result.iqm_interval
    return DotRow(
        label=result.group.label,
        note=f"n = {result.n}: {states_text(result)}",
        colour=colours[result.group.label],
        scores=result.scores,
        centre=result.iqm,
        interval=None if interval is None else (interval.low, interval.high),
    )


def _together(comparison: Comparison, colours: Colours) -> PageSection:
    if not comparison.aggregates:
        missing = len(comparison.tasks) > 1
        words = "Scores of different environments are put together with --reference ENV=LOW:HIGH for each, not without."
        return PageSection(title="All environments", text=[words] if missing else ())
    lines = [
        Line(label=a.label, colour=colours[a.label], x=a.thresholds, y=a.profile, is_stepped=False)
        for a in comparison.aggregates
    ]
    labels = [f"{a.label} (n = {n_text(a.n.values())})" for a in comparison.aggregates]
    figure = PageFigure(
        caption="Share of runs that score above each value (performance profile)",
        svg=line_chart(lines, title="performance profiles", x_label="normalised score"),
        legend=[(colour(line.colour), label) for line, label in zip(lines, labels, strict=True)],
    )
    pairs = [pair for pair in comparison.improvements if not pair.task]
    references = ", ".join(
        f"{task} {low:g} and {high:g}" for task, (low, high) in comparison.options.references.items()
    )
    return PageSection(
        title="All environments",
        text=[f"Scores are 0 and 1 at the given references: {references}."],
        figures=[figure],
        tables=[
            PageTable(
                caption="Scores",
                header=("group", "n", "IQM", "mean", "95 % of IQM"),
                rows=aggregate_rows(comparison.aggregates),
            ),
            PageTable(caption="Who is better", header=IMPROVEMENT_HEADER, rows=improvement_rows(pairs)),
        ],
    )


def _differences(comparison: Comparison) -> PageSection:
    left = comparison.n_differences - len(comparison.differences)
    header, rows = difference_table(comparison)
    table = PageTable(header=header, rows=rows)
    also = [
        f"The runs of {result.group.label} also differ in {', '.join(result.group.also_differ)}."
        for result in comparison.groups
        if result.group.also_differ
    ]
    return PageSection(
        title="What differs",
        text=[*also, *([f"… and {left} settings more."] if left else ())],
        tables=[table] if comparison.differences else (),
    )
