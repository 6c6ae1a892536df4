"""The pages of `maze report` and `maze compare --html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maze_reports import run_sections, statistics_sections
from maze_reports.charts.drawing import N_COLOURS
from maze_reports.charts.parameters import parallel_coordinates, slices
from maze_reports.comparison import CompareOptions, Comparison, compare_runs
from maze_reports.comparison_sections import comparison_sections, group_colours
from maze_reports.listing import number
from maze_reports.output import heading
from maze_reports.page import PageFigure, PageSection, PageTable, build_page
from maze_reports.runs import RunEntry
from maze_reports.settings import ABSENT, shown
from maze_reports.sweeps import StoredSweep, sweeps_in

_MAX_TRIALS = 200


def comparison_page(comparison: Comparison) -> str:
    """The page of a comparison: curves, scores, who is better, what differs."""
    return build_page(_title(comparison), heading(comparison), comparison_sections(comparison))


def report_page(
    runs: Sequence[RunEntry], options: CompareOptions | None = None, *, sources: Sequence[Path] = ()
) -> str:
    """The page of one run, or of several.

    Args:
        runs: at least one.
        options: how they are compared.
        sources: folders the runs were found in; sweeps among them are shown.

    Raises:
        RequestError: no run has the statistic or the setting that the options name.
    """
    comparison = compare_runs(runs, options)
    colours = group_colours(comparison)
    *tasks, together, differences = comparison_sections(comparison)
    sections = [
        run_sections.overview(comparison),
        *(sweep_section(sweep) for sweep in sweeps_in(sources)),
        *tasks,
        together,
        statistics_sections.training(comparison, colours),
        statistics_sections.evaluations(comparison, colours),
        statistics_sections.actions(comparison),
        statistics_sections.networks(comparison),
        differences,
        run_sections.all_runs(comparison),
        run_sections.versions(comparison),
        run_sections.repeating(comparison),
    ]
    return build_page(_title(comparison), heading(comparison), sections)


def sweep_section(sweep: StoredSweep) -> PageSection:
    """Parallel coordinates, slices and the trials of a sweep, the best first."""
    trials = sweep.trials
    if not trials:
        return PageSection(title=f"Sweep {sweep.name}")
    worst = float("inf") if sweep.minimize else float("-inf")
    ordered = sorted(trials, key=lambda t: worst if t.value is None else t.value, reverse=not sweep.minimize)
    names = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
    rows = [
        [
            trial.name,
            sweep.status[trial.name],
            number(trial.value),
            *(shown(trial.parameters.get(n, ABSENT)) for n in names),
        ]
        for trial in ordered[:_MAX_TRIALS]
    ]
    valued = [trial for trial in trials if trial.value is not None]
    goal = ", less is better" if sweep.minimize else ""
    coordinates = parallel_coordinates(trials, value_name="value", minimize=sweep.minimize)
    return PageSection(
        title=f"Sweep {sweep.name}",
        text=[f"{len(trials)} trials by {sweep.metric}{goal}; {len(valued)} have a value."],
        wide_figures=[
            PageFigure(caption="Parameters and value of every trial: the better, the stronger", svg=coordinates)
        ],
        figures=[PageFigure(caption=name, svg=svg) for name, svg in slices(trials, value_name="value")]
        if valued
        else (),
        tables=[PageTable(header=("trial", "status", "value", *names), rows=rows)],
    )


def _title(comparison: Comparison) -> str:
    names = list(dict.fromkeys(scored.run.record.name for result in comparison.groups for scored in result.runs))
    labels = list(dict.fromkeys(result.group.label for result in comparison.groups))
    if len(names) == 1:
        return names[0]
    return " and ".join(labels) if len(labels) <= N_COLOURS // 2 else f"{len(labels)} groups of runs"
