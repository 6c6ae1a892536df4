"""Single runs as sections of a page: their list, training, evaluations, actions, networks, versions, repetition."""

from __future__ import annotations

import shlex

import numpy as np

from maze_reports.actions import action_charts, recorded_actions
from maze_reports.charts.lines import Line, line_chart
from maze_reports.comparison import AXES, Comparison, GroupResult, ScoredRun
from maze_reports.comparison_sections import Colours, legend
from maze_reports.listing import HEADER, listed, number, table_rows
from maze_reports.page import PageFigure, PageSection, PageTable
from maze_reports.runs import RunEntry
from maze_reports.stored_pictures import network_pictures

_MAX_LISTED = 200
_FEW = 12
"""So many runs are listed at the top; more have a section of their own further down."""
_MAX_CURVES = 24
_MAX_SHOWN = 4
"""Networks, actions and files are shown of so many groups."""
_PER_EPOCH = (
    "Timing/compile_seconds",
    "Timing/rollout_seconds",
    "Timing/update_seconds",
    "BaseEnvEvents/episode_count",
)
"""Statistics that say little over time."""


def overview(comparison: Comparison) -> PageSection:
    """The numbers that matter of one run, or what there is of several, and the list of a few."""
    only = comparison.groups[0].runs[0]
    return PageSection(
        title="Runs",
        cards=_cards_of(only, comparison) if comparison.n_runs == 1 else _cards(comparison),
        tables=_listed(comparison).tables if comparison.n_runs <= _FEW else (),
    )


def all_runs(comparison: Comparison) -> PageSection:
    """The list of more than a few runs."""
    return _listed(comparison) if comparison.n_runs > _FEW else PageSection(title="All runs")


def _listed(comparison: Comparison) -> PageSection:
    runs = [scored.run for result in comparison.groups for scored in result.runs]
    rows = table_rows([listed(run) for run in runs[:_MAX_LISTED]])
    left = len(runs) - len(rows)
    return PageSection(
        title="All runs",
        text=[f"{left} runs more are not listed."] if left else (),
        tables=[PageTable(header=HEADER, rows=rows)],
    )


def training(comparison: Comparison, colours: Colours) -> PageSection:
    """A small curve for each statistic of training: every run, in the colour of its group."""
    runs = [(scored.run, result.group.label) for result in comparison.groups for scored in result.runs]
    shown = [(run, label) for run, label in runs if colours[label] is not None]
    tags = sorted({tag for run, _ in shown for tag in run.table.tags("train")} - set(_PER_EPOCH), key=_order)
    figures = [
        PageFigure(
            caption=tag,
            svg=line_chart(
                [line for run, label in shown if (line := _run_line(run, label, tag, comparison, colours)) is not None],
                title=f"{tag} over {AXES[comparison.options.x]}",
                x_label=AXES[comparison.options.x],
            ),
        )
        for tag in tags[:_MAX_CURVES]
    ]
    if figures and len(colours) > 1:
        labels = list(dict.fromkeys(label for _, label in shown))
        figures[0] = PageFigure(caption=figures[0].caption, svg=figures[0].svg, legend=legend(colours, labels))
    left = tags[_MAX_CURVES:]
    return PageSection(
        title="Training",
        text=[f"Not shown: {', '.join(left)}."] if left else (),
        figures=figures,
        has_small_figures=True,
    )


def evaluations(comparison: Comparison) -> PageSection:
    """Every statistic of the last evaluation, and of the best one: means over the runs of a group."""
    results = [result for result in comparison.groups if result.iqm is not None][: 2 * _MAX_SHOWN]
    tags = sorted({tag for result in results for scored in result.runs for tag in scored.run.table.tags("eval")})
    header = ["statistic", *(f"{result.group.label}, {when}" for result in results for when in ("last", "best"))]
    rows = [[tag, *(number(_mean_at(result, tag, when, comparison)) for result in results for when in ("last", "best"))]
            for tag in tags]  # fmt: skip
    words = "Means over runs, of the last evaluation and of the one with the best value of the metric."
    return PageSection(
        title="Evaluations", text=[words] if rows else (), tables=[PageTable(header=header, rows=rows)] if rows else ()
    )


def actions(comparison: Comparison) -> PageSection:
    """Distributions of recorded actions, of the first run of each group that has some."""
    figures = []
    for result in comparison.groups[:_MAX_SHOWN]:
        for scored in result.runs:
            found, n_episodes = recorded_actions(scored.run.path)
            if found:
                about = f"{result.group.label}, seed {scored.run.seed}, {n_episodes} episodes"
                figures += [PageFigure(caption=f"{name} ({about})", svg=svg) for name, svg in action_charts(found)]
                break
    return PageSection(title="Actions", figures=figures, has_small_figures=True)


def networks(comparison: Comparison) -> PageSection:
    """The networks of each group, as drawn when the first of its runs that has pictures began."""
    figures: list[PageFigure] = []
    shown: set[tuple[str, ...]] = set()
    for result in comparison.groups:
        for scored in result.runs:
            pictures = network_pictures(scored.run.path, scored.run.record.experiment)
            key = tuple(pictures.values())
            if pictures and key not in shown and len(shown) < _MAX_SHOWN:
                shown.add(key)
                figures += [
                    PageFigure(caption=f"{name} ({result.group.label})", svg=svg) for name, svg in pictures.items()
                ]
            if pictures:
                break
    return PageSection(title="Networks", figures=figures)


def versions(comparison: Comparison) -> PageSection:
    """What the first run of each group ran on; a row where anything differs between them."""
    runs = [result.runs[0].run for result in comparison.groups[:_MAX_SHOWN]]
    facts = [_facts(run) for run in runs]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    header = ("", *(result.group.label for result in comparison.groups[:_MAX_SHOWN]))
    rows = [[name, *(fact.get(name, "–") for fact in facts)] for name in names]
    return PageSection(title="Versions", tables=[PageTable(header=header, rows=rows)])


def repeating(comparison: Comparison) -> PageSection:
    """The commands that train the runs again, and the experiment of the first run of each group."""
    code = []
    for result in comparison.groups[:_MAX_SHOWN]:
        first = result.runs[0].run
        try:
            text = (first.path / "experiment.toml").read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = "# the run directory holds no experiment.toml\n"
        commands = [_command(scored.run) for scored in result.runs[:20]]
        code.append(
            (
                f"{result.group.label}: {len(result.runs)} runs",
                "\n".join(commands) + f"\n\n# experiment.toml of the first\n\n{text}",
            )
        )
    return PageSection(
        title="How to repeat it",
        text=["With the versions above, on the CPU, the same seed gives the same numbers."],
        code=code,
    )


def _cards_of(scored: ScoredRun, comparison: Comparison) -> list[tuple[str, str]]:
    row, table = listed(scored.run), scored.run.table
    seconds = float(table.wall_seconds.max()) if len(table) else 0.0
    speed = f"{row.env_steps / seconds:,.0f} / s" if seconds and row.env_steps else "–"
    return [
        ("best", number(comparison.metric.best(scored.values)) if len(scored.values) else "–"),
        ("last", number(scored.score)),
        ("state", row.state),
        ("epochs", f"{row.epochs:,}"),
        ("environment steps", f"{row.env_steps:,}"),
        ("time", _duration(seconds)),
        ("speed", speed),
    ]


def _cards(comparison: Comparison) -> list[tuple[str, str]]:
    states: dict[str, int] = {}
    for result in comparison.groups:
        for name, count in result.states.items():
            states[name] = states.get(name, 0) + count
    runs = [scored.run for result in comparison.groups for scored in result.runs]
    seconds = sum(float(run.table.wall_seconds.max()) for run in runs if len(run.table))
    return [
        ("runs", str(comparison.n_runs)),
        ("groups", str(len({result.group.label for result in comparison.groups}))),
        ("environments", str(len(comparison.tasks))),
        *((name, str(count)) for name, count in states.items()),
        ("environment steps", f"{sum(run.n_env_steps for run in runs):,}"),
        ("time of all", _duration(seconds)),
    ]


def _run_line(run: RunEntry, label: str, tag: str, comparison: Comparison, colours: Colours) -> Line | None:
    if tag not in run.table.tags("train"):
        return None
    series = run.table.series(tag, split="train")
    finite = np.isfinite(series.value)
    x, y = series.axis(comparison.options.x)[finite], series.value[finite]
    return Line(label=f"{label}, seed {run.seed}", colour=colours[label], x=x, y=y, is_stepped=False)


def _mean_at(result: GroupResult, tag: str, when: str, comparison: Comparison) -> float | None:
    """Mean over the runs that have the statistic in their last, or in their best epoch."""
    found = []
    for scored in result.runs:
        metric = scored.run.series(comparison.metric)
        if metric is None or not len(metric) or tag not in scored.run.table.tags("eval"):
            continue
        best = np.nanargmin(metric.value) if comparison.metric.minimize else np.nanargmax(metric.value)
        epoch = metric.epoch[best if when == "best" else -1]
        series = scored.run.table.series(tag)
        found += series.value[series.epoch == epoch].tolist()
    return float(np.mean(found)) if found else None


def _facts(run: RunEntry) -> dict[str, str]:
    record = run.record
    packages = {name: version or "not installed" for name, version in record.packages.items()}
    plugins = {plugin.name: plugin.version for plugin in record.plugins if plugin.status == "active"}
    versions = sorted(set(plugins.values()))
    same = (
        f"{len(plugins)} of version {versions[0]}"
        if len(versions) == 1
        else ", ".join(f"{n} {v}" for n, v in plugins.items())
    )
    commit = "–" if record.git is None else f"{record.git.commit[:12]}{' with changes' if record.git.dirty else ''}"
    return {
        "created": record.created,
        "python": record.python,
        "platform": record.platform,
        **packages,
        "plugins": same,
        "git": commit,
    }


def _command(run: RunEntry) -> str:
    """`experiment.toml` is kept as it was written; what was set beside it has to be set again."""
    given = [item for resumption in run.record.resumed for item in resumption.overrides]
    items = dict.fromkeys([*run.record.overrides, *given])
    settings = "".join(f" --set {shlex.quote(item)}" for item in items)
    return f"maze train {shlex.quote(str(run.path / 'experiment.toml'))}{settings}"


def _order(tag: str) -> tuple[int, str]:
    rank = (
        "reward/mean" not in tag,
        "Events" not in tag,
        any(tag.endswith(end) for end in ("/std", "/min", "/max", "/median")),
    )
    return (rank[0] + 2 * rank[1] + 2 * rank[2], tag)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
