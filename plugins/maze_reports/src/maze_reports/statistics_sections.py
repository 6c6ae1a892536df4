"""What the runs of a comparison did, as sections of a page: training, evaluations, actions, networks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from maze_reports.actions import action_charts, recorded_actions
from maze_reports.charts.lines import Line, line_chart
from maze_reports.comparison import AXES, Comparison, GroupResult
from maze_reports.comparison_sections import Colours, leading, legend, named
from maze_reports.listing import number
from maze_reports.page import PageFigure, PageSection, PageTable
from maze_reports.runs import RunEntry
from maze_reports.stored_pictures import network_pictures

_MAX_CURVES = 24
_UNDRAWN = {"Timing/compile_seconds", "Timing/rollout_seconds", "Timing/update_seconds", "BaseEnvEvents/episode_count"}
"""Statistics that say little over time."""
_DETAILS = ("/std", "/min", "/max", "/median")


def training(comparison: Comparison, colours: Colours) -> PageSection:
    """A small curve for each statistic of training: every run, in the colour of its group."""
    figures, left = _curves(comparison, colours, "train", _UNDRAWN)
    return PageSection(
        title="Training",
        text=[f"Not shown: {', '.join(left)}."] if left else (),
        figures=figures,
        has_small_figures=True,
    )


def evaluations(comparison: Comparison, colours: Colours) -> PageSection:
    """Curves of what was evaluated besides the metric, KPIs among it, and every statistic as a number."""
    details = {tag for run, _ in _runs(comparison) for tag in run.table.tags("eval") if tag.endswith(_DETAILS)}
    figures, _ = _curves(comparison, colours, "eval", {*_UNDRAWN, *details, comparison.metric.tag})
    results = leading(comparison)
    tags = sorted({tag for result in results for scored in result.runs for tag in scored.run.table.tags("eval")})
    if not tags:
        return PageSection(title="Evaluations")
    columns = [(result, when) for result in results for when in ("last", "best")]
    rows = [[tag, *(number(_mean_at(result, tag, when, comparison)) for result, when in columns)] for tag in tags]
    header = ["statistic", *(f"{named(result, comparison)}, {when}" for result, when in columns)]
    return PageSection(
        title="Evaluations",
        text=["Numbers are means over runs, of the last evaluation and of the one with the best value of the metric."],
        figures=figures,
        has_small_figures=True,
        tables=[PageTable(header=header, rows=rows)],
    )


def actions(comparison: Comparison) -> PageSection:
    """Distributions of recorded actions, of the first run of each group that has some."""
    figures = []
    for result in leading(comparison):
        for scored in result.runs:
            found, n_episodes = recorded_actions(scored.run.path)
            if found:
                about = f"{named(result, comparison)}, seed {scored.run.seed}, {n_episodes} episodes"
                figures += [PageFigure(caption=f"{name} ({about})", svg=svg) for name, svg in action_charts(found)]
                break
    return PageSection(title="Actions", figures=figures, has_small_figures=True)


def networks(comparison: Comparison) -> PageSection:
    """The networks of each group, as drawn when the first of its runs that has pictures began; equal ones once."""
    owners: dict[tuple[str, str], list[str]] = {}
    for result in leading(comparison):
        drawn = (network_pictures(scored.run.path, scored.run.record.experiment) for scored in result.runs)
        for picture in next(filter(None, drawn), {}).items():
            owners.setdefault(picture, []).append(named(result, comparison))
    return PageSection(
        title="Networks",
        figures=[
            PageFigure(caption=f"{name} ({', '.join(labels)})", svg=svg) for (name, svg), labels in owners.items()
        ],
    )


def _curves(
    comparison: Comparison, colours: Colours, split: str, without: Collection[str]
) -> tuple[list[PageFigure], list[str]]:
    """Small pictures of the statistics, at most twenty-four, and the tags of the others."""
    runs = [(run, label) for run, label in _runs(comparison) if colours[label] is not None]
    tags = sorted({tag for run, _ in runs for tag in run.table.tags(split)} - set(without), key=_order)
    labels = list(dict.fromkeys(label for _, label in runs))
    figures: list[PageFigure] = []
    for tag in tags[:_MAX_CURVES]:
        lines = [
            _line(run, label, tag, split, comparison, colours) for run, label in runs if tag in run.table.tags(split)
        ]
        axis = AXES[comparison.x]
        figures.append(
            PageFigure(
                caption=tag,
                svg=line_chart(lines, title=f"{tag} over {axis}", x_label=axis),
                legend=legend(colours, labels) if len(labels) > 1 and not figures else (),
            )
        )
    return figures, tags[_MAX_CURVES:]


def _runs(comparison: Comparison) -> list[tuple[RunEntry, str]]:
    return [(scored.run, result.group.label) for result in comparison.groups for scored in result.runs]


def _line(run: RunEntry, label: str, tag: str, split: str, comparison: Comparison, colours: Colours) -> Line:
    series = run.table.series(tag, split=split)
    finite = np.isfinite(series.value)
    x, y = series.axis(comparison.x)[finite], series.value[finite]
    return Line(label=f"{label}, seed {run.seed}", colour=colours[label], x=x, y=y, is_stepped=False)


def _mean_at(result: GroupResult, tag: str, when: str, comparison: Comparison) -> float | None:
    """Mean over the runs that have the statistic in their last, or in their best epoch."""
    found: list[float] = []
    for scored in result.runs:
        series = scored.run.series(comparison.metric)
        if series is None or not len(scored.values) or tag not in scored.run.table.tags("eval"):
            continue
        finite = np.isfinite(series.value)
        values, epochs = series.value[finite], series.epoch[finite]
        best = np.argmin(values) if comparison.metric.minimize else np.argmax(values)
        own = scored.run.table.series(tag)
        found += own.value[own.epoch == epochs[best if when == "best" else -1]].tolist()
    return float(np.mean(found)) if found else None


def _order(tag: str) -> tuple[int, str]:
    """The reward first, then what the algorithm and the environment report, timing and details last."""
    rank = ("reward/mean" not in tag) + 2 * ("Events" not in tag) + 2 * tag.endswith(_DETAILS)
    return (rank, tag)
