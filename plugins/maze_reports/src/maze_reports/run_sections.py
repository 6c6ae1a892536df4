"""Runs as sections of a page: their list, the versions they ran on, and how to repeat them."""

from __future__ import annotations

from maze_kernel.shown_command import shown_command
from maze_reports.comparison import Comparison, GroupResult, ScoredRun
from maze_reports.comparison_sections import leading, named
from maze_reports.listing import HEADER, listed, number, table_rows
from maze_reports.page import PageSection, PageTable
from maze_reports.runs import RunEntry
from maze_reports.settings import ABSENT
from maze_runtime.run.regular_file import read_regular

_MAX_LISTED = 200
_MAX_COMMANDS = 20
_FEW = 12
"""So many runs are listed at the top; more have a section of their own further down."""


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


def versions(comparison: Comparison) -> PageSection:
    """What the first run of each group ran on."""
    results = leading(comparison)
    facts = [_facts(result.runs[0].run) for result in results]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    rows = [[name, *(fact.get(name, ABSENT) for fact in facts)] for name in names]
    header = ("", *(named(result, comparison) for result in results))
    return PageSection(title="Versions", tables=[PageTable(header=header, rows=rows)])


def repeating(comparison: Comparison) -> PageSection:
    """The commands that train the runs again, and the experiment of the first run of each group."""
    return PageSection(
        title="How to repeat it",
        text=[
            "The experiments as they were written, with what was set beside them; the versions above belong to them."
        ],
        code=[(_about(result, comparison), _repetition(result)) for result in leading(comparison)],
    )


def _about(result: GroupResult, comparison: Comparison) -> str:
    return f"{named(result, comparison)}: {result.n} {'run' if result.n == 1 else 'runs'}"


def _repetition(result: GroupResult) -> str:
    try:
        text = read_regular(result.runs[0].run.path / "experiment.toml").decode(errors="replace")
    except OSError:
        text = "# the run directory holds no experiment.toml\n"
    commands = "\n".join(_command(scored.run) for scored in result.runs[:_MAX_COMMANDS])
    return f"{commands}\n\n# experiment.toml of the first\n\n{text}"


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
    return shown_command("maze", "train", run.path / "experiment.toml", settings=items)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
