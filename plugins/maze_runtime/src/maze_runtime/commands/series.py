"""`maze train --seeds`: an experiment trained once with each seed, and one table of what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from maze_kernel.cli.tables import print_table
from maze_kernel.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, RequestError
from maze_kernel.shown_command import shown_command
from maze_runtime.commands.sources import experiment_of

if TYPE_CHECKING:
    from maze_runtime.series.series import SeedResult, SeriesResult


def train_seeds(
    file: Path | None,
    overrides: tuple[str, ...],
    seeds: str | None,
    resume: Path | None,
    out: Path | None,
    *,
    overwrite: bool,
    parallel: int | None,
    max_seconds: float | None,
) -> int:
    """Train a new series, or go on with one; the options are those of `maze train`. Returns the exit code."""
    from maze_runtime.series.live_table import LiveTable
    from maze_runtime.series.seeds import parse_seeds
    from maze_runtime.series.series import SeriesOptions, is_series, resume_series, train_series
    from maze_runtime.training.interruption import ignore_ctrl_c

    _check(file, seeds, resume, out, overwrite)
    begun = [] if resume is None else [resume]
    try:
        loaded = None if file is None else experiment_of(file, overrides, needs_trainer=True)
        with LiveTable(["seed", "state", "epoch", "steps", "last value"]) as table:

            def announce(path: Path) -> None:
                begun.append(path)
                table.say(f"folder of the runs: {path}")

            options = SeriesOptions(n_parallel=parallel, max_seconds=max_seconds, table=table)
            if resume is not None:
                result = resume_series(resume, loaded, options=options)
            else:
                assert loaded is not None, "a file is given where nothing is resumed"
                result = train_series(loaded, parse_seeds(seeds or ""), path=out, options=options, on_path=announce)
    except KeyboardInterrupt:
        ignore_ctrl_c()
        if not begun or not is_series(begun[0]):
            raise
        print(f"interrupted; go on with: {_resume_command(begun[0], file, overrides)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    _print(result)
    states = {seed.status for seed in result.seeds}
    if states & {"interrupted", "waiting"}:
        ignore_ctrl_c()
        print(f"interrupted; go on with: {_resume_command(result.path, file, overrides)}")
        return EXIT_INTERRUPTED
    print(f"compare them with: {shown_command('maze', 'compare', result.path)}")
    return EXIT_FAILED if "failed" in states else EXIT_DONE


def _check(file: Path | None, seeds: str | None, resume: Path | None, out: Path | None, overwrite: bool) -> None:
    if resume is not None and seeds is not None:
        raise RequestError("a series keeps its seeds", received="--resume and --seeds", help="leave --seeds out")
    if resume is not None and (out is not None or overwrite):
        given = "--overwrite" if overwrite else f"--out {out}"
        raise RequestError("a resumed series stays in its folder", received=given, help="leave it out")
    if overwrite:
        raise RequestError(
            "a series overwrites nothing", received="--seeds and --overwrite", help="give --out another folder"
        )
    if file is None and resume is None:
        raise RequestError("there is nothing to train", help="give an experiment file, or --resume FOLDER")


def _print(result: SeriesResult) -> None:
    for seed in result.seeds:
        if seed.error is not None:
            print(seed.error.render(), file=sys.stderr)
    print_table(["seed", "state", "epoch", "steps", "best", "at epoch"], [_row(seed) for seed in result.seeds])
    scores = result.scores
    if len(scores) < 2:
        return
    interval = result.interval
    if interval is None:
        spread = f"from {scores.min():.6g} to {scores.max():.6g}; five seeds and more have an interval"
    else:
        narrow = ", which is narrow for so few seeds" if interval.is_narrow else ""
        spread = f"{interval.level:.0%} interval {interval.low:.6g} to {interval.high:.6g}{narrow}"
    goal = ", less is better" if result.minimize else ""
    print(f"best {result.metric}{goal}: mean {scores.mean():.6g} of {len(scores)} seeds, {spread}")


def _row(seed: SeedResult) -> list[str]:
    report = seed.report
    if report is None:
        return [str(seed.seed), seed.status, "", "", "", ""]
    outcome = report.outcome
    best = "" if seed.best_metric is None else f"{seed.best_metric:.6g}"
    at = "" if outcome is None or outcome.best_epoch is None else str(outcome.best_epoch)
    return [str(seed.seed), seed.status, str(report.epoch), f"{report.env_steps:,}", best, at]


def _resume_command(path: Path, file: Path | None, overrides: tuple[str, ...]) -> str:
    """What goes on with the series; only the user's own file may ask for code by path."""
    from maze_runtime.series.series import series_experiment

    try:
        series_experiment(path)
    except RequestError:
        if file is not None:
            return shown_command("maze", "train", file, "--resume", path, settings=overrides)
    return shown_command("maze", "train", "--resume", path)
