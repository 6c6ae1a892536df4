"""`maze list-runs`, `maze compare` and `maze report`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_kernel.catalog import nearest
from maze_kernel.cli.tables import print_table
from maze_kernel.errors import RequestError

if TYPE_CHECKING:
    from maze_reports.comparison import Comparison
    from maze_reports.runs import RunEntry

_Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="TAG",
        help="Compare by this statistic: train_ before it means of training, - that less is better.",
    ),
]
_By = Annotated[str | None, typer.Option("--by", metavar="KEY", help="Group by this setting alone, e.g. trainer.lr.")]
_Axis = Annotated[
    str | None,
    typer.Option(
        "--x",
        help="Axis of the curves: env_steps, wall_seconds or epoch; else env_steps, or epoch where a run took none.",
    ),
]


def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with runs at any depth.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List runs with their state and their last and best evaluation."""
    from maze_reports import listing

    rows = listing.list_runs([folder])
    if as_json:
        print(json.dumps(listing.as_data(rows), indent=2))
        return
    print_table(listing.HEADER, listing.table_rows(rows))
    for row in rows:
        if row.state in ("failed", "damaged"):
            print(f"{row.run}: {row.reason}", file=sys.stderr)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN|FOLDER|SWEEP…", help="Runs, or folders that hold some.")],
    by: _By = None,
    metric: _Metric = None,
    x: _Axis = None,
    final: Annotated[str, typer.Option("--final", help="The score of a run: last, best or auc.")] = "last",
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Say how long it takes to reach this value.")
    ] = None,
    references: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            metavar="ENV=LOW:HIGH",
            help="Scores that become 0 and 1 where several environments are put together; may be given again.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page for browsers to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A row a run, as CSV.")] = False,
) -> None:
    """Compare runs; those that differ in seed and name alone form a group."""
    from maze_reports import output
    from maze_reports.comparison import AXES, FINALS, CompareOptions, compare_runs

    options = CompareOptions(
        metric=metric,
        by=by,
        x=None if x is None else _choice("--x", x, AXES),
        final=_choice("--final", final, FINALS),
        threshold=None if threshold is None else _finite("--threshold", threshold),
        references=_references(references or ()),
    )
    if as_json and as_csv:
        raise RequestError("--json and --csv are two forms of one output", help="leave one of them out")
    comparison = compare_runs(_opened(runs), options)
    if html is not None:
        from maze_reports.report import comparison_page

        _write(html, comparison_page(comparison))
    if as_json:
        print(json.dumps(output.as_data(comparison), indent=2, allow_nan=False))
    elif as_csv:
        print(output.as_csv(comparison), end="")
    else:
        _print(comparison)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN|FOLDER|SWEEP…", help="Runs, or folders that hold some.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the page here; else report.html in the first folder.")
    ] = None,
    by: _By = None,
    metric: _Metric = None,
    x: _Axis = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one self-contained page: curves, numbers, networks, actions, settings, versions, how to repeat it."""
    from maze_reports.comparison import AXES, CompareOptions
    from maze_reports.report import report_page

    options = CompareOptions(metric=metric, by=by, x=None if x is None else _choice("--x", x, AXES))
    page = report_page(_opened(runs), options, sources=runs)
    out = runs[0] / "report.html" if out is None else out
    _write(out, page)
    if open_page:
        typer.launch(out.resolve().as_uri())


def _opened(paths: Sequence[Path]) -> list[RunEntry]:
    """The runs; damaged ones are named and left out, unless there are no others."""
    from maze_reports.runs import open_runs

    entries, damaged = open_runs(paths)
    if not entries:
        raise next(iter(damaged.values()))
    for error in damaged.values():
        print(f"left out: {error.what}", file=sys.stderr)
    return entries


def _print(comparison: Comparison) -> None:
    from maze_reports import output

    print(output.heading(comparison))
    if text := output.axis_text(comparison):
        print(text)
    for task in comparison.tasks:
        results = [result for result in comparison.groups if result.group.task == task]
        print(f"\non {task}")
        print_table(output.GROUP_HEADER, output.group_rows(results))
        if comparison.options.threshold is not None:
            print(f"\n{comparison.options.threshold:g} reached, in {comparison.x}")
            print_table(output.THRESHOLD_HEADER, output.threshold_rows(results))
        pairs = [pair for pair in comparison.improvements if pair.task == task]
        if pairs:
            print()
            print_table(output.IMPROVEMENT_HEADER, output.improvement_rows(pairs))
    _print_repeats(comparison)
    _print_together(comparison)
    _print_differences(comparison)


def _print_repeats(comparison: Comparison) -> None:
    from maze_reports import output

    lines = [text for result in comparison.groups if (text := output.repeats_text(result))]
    if lines:
        print("\n" + "\n".join(lines))


def _print_together(comparison: Comparison) -> None:
    from maze_reports import output

    if len(comparison.tasks) > 1 and not comparison.aggregates:
        names = ", ".join(comparison.tasks)
        print(f"\nnot put together: give --reference ENV=LOW:HIGH for each of {names}")
    if comparison.aggregates:
        print("\nall environments, 0 and 1 at the references")
        print_table(("group", "n", "IQM", "mean", "95 % of IQM"), output.aggregate_rows(comparison.aggregates))
        print()
        pairs = [pair for pair in comparison.improvements if not pair.task]
        print_table(output.IMPROVEMENT_HEADER, output.improvement_rows(pairs))


def _print_differences(comparison: Comparison) -> None:
    from maze_reports import output

    if comparison.differences:
        print("\nwhat differs")
        print_table(*output.difference_table(comparison))
        left = comparison.n_differences - len(comparison.differences)
        if left:
            print(f"… and {left} settings more")
    for result in comparison.groups:
        if result.group.also_differ:
            print(f"the runs of {result.group.label} also differ in {', '.join(result.group.also_differ)}")


def _choice(option: str, value: str, choices: Iterable[str]) -> str:
    if value in choices:
        return value
    raise RequestError(f"{option} cannot be {value!r}", expected=", ".join(choices), nearest=nearest(value, choices))


def _finite(option: str, value: float) -> float:
    if math.isfinite(value):
        return value
    raise RequestError(f"{option} cannot be {value}", expected="a finite number")


def _references(items: Sequence[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for item in items:
        env, _, pair = item.rpartition("=")
        low, _, high = pair.partition(":")
        try:
            found[env] = (float(low), float(high))
        except ValueError:
            env = ""
        if env and not all(map(math.isfinite, found[env])):
            raise RequestError(
                f"the references of {env} are not finite", received=f"{low}:{high}", expected="two finite numbers"
            )
        if not env:
            raise RequestError(
                f"--reference takes ENV=LOW:HIGH, not {item!r}", help="for example --reference CartPole-v1=22:500"
            )
    return found


def _write(file: Path, page: str) -> None:
    from maze_runtime.run.writable import writing

    with writing(file, "the page"):
        file.write_text(page, encoding="utf-8")
    print(f"open in a browser: {file}", file=sys.stderr)
