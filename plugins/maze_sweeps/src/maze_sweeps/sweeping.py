"""A whole sweep: a new one, or one that goes on, from its file to its result."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.catalog import Catalog, build
from maze_kernel.config.load import select
from maze_kernel.config.problems import Problems
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_runtime.run.pools import make_pool, with_count
from maze_runtime.series.live_table import LiveTable
from maze_runtime.series.parallel_runs import ParallelRuns
from maze_sweeps.base_experiment import BaseExperiment, base_of_loaded
from maze_sweeps.checking import check_conflicts, check_draws
from maze_sweeps.contract import SearchContext, Searcher
from maze_sweeps.driver import SweepDriver
from maze_sweeps.folder import change_n_trials, create_folder, locked, open_sweep, write_record
from maze_sweeps.grid import GridSearcher
from maze_sweeps.progress import HEADER, SweepProgress
from maze_sweeps.ranking import best_trial
from maze_sweeps.space import Draw
from maze_sweeps.sweep_reading import LoadedSweep, load_sweep, sweep_from_mapping
from maze_sweeps.trials import SweepTrial, read_trials

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment


@attrs.frozen(kw_only=True)
class SweepResult:
    """What a sweep came to.

    Attributes:
        path: its folder.
        metric: what the trials are compared by.
        trials: by number.
        best: by its confirmed value where any trial has one; None where none is finished.
        importances: leaf name to how much it mattered; empty where the searcher cannot tell.
        interrupted: name of the signal that ended it early.
    """

    path: Path
    metric: str
    minimize: bool
    trials: tuple[SweepTrial, ...]
    best: SweepTrial | None
    importances: Mapping[str, float]
    interrupted: str | None = None


def sweep(
    file_or_mapping: Path | str | Mapping[str, Any] | None = None,
    *,
    experiment: LoadedExperiment | None = None,
    out: Path | str | None = None,
    n_parallel: int | None = None,
    resume: Path | str | None = None,
    n_trials: int | None = None,
    silent: bool = False,
) -> SweepResult:
    """Try settings of an experiment, and find the best.

    Args:
        file_or_mapping: the sweep's file, or what it would hold; its `experiment` may be a file, data or a
            `LoadedExperiment`. Not needed for a sweep that goes on.
        experiment: in place of the one that is named there; for one that goes on, needed where it imports code by path.
        out: a new folder; None: `sweeps/<name>/<UTC time>-<4 hex>/`.
        n_parallel: runs at a time, in place of what the sweep says.
        resume: the folder of the sweep that goes on.
        n_trials: in place of what the sweep says.
        silent: show nothing.

    Raises:
        ExperimentError: every problem of the sweep or its experiment, before anything runs.
        RequestError: the folder is in use, or no evaluation reports the metric.
    """
    if resume is not None:
        base = None if experiment is None else base_of_loaded(experiment)
        return resume_sweep(Path(resume), base, n_parallel=n_parallel, n_trials=n_trials, silent=silent)
    if file_or_mapping is None:
        raise RequestError("there is nothing to sweep", help="give the file of a sweep, or resume=FOLDER")
    if isinstance(file_or_mapping, Mapping):
        loaded = sweep_from_mapping(file_or_mapping, experiment=experiment)
    else:
        base = None if experiment is None else base_of_loaded(experiment)
        loaded = load_sweep(Path(file_or_mapping), experiment=base)
    out = None if out is None else Path(out)
    return run_sweep(loaded, out=out, n_parallel=n_parallel, n_trials=n_trials, silent=silent)


def run_sweep(
    loaded: LoadedSweep,
    *,
    out: Path | None = None,
    n_parallel: int | None = None,
    n_trials: int | None = None,
    silent: bool = False,
    on_path: Callable[[Path], None] = lambda _path: None,
) -> SweepResult:
    """Train a new sweep; see `sweep`.

    Args:
        on_path: called with the folder before the first trial starts.
    """
    _check_conflicts(loaded)
    wanted = loaded.file.n_trials if n_trials is None else n_trials
    is_new = out is None or not out.exists()
    path = create_folder(loaded, out)
    try:
        with locked(path):
            searcher = _searcher(loaded, path, wanted)
            write_record(path, loaded, wanted)
            on_path(path)
            return _train(loaded, path, searcher, [], wanted, n_parallel, silent)
    except RequestError:
        if not (path / "sweep.json").exists():
            _remove(path, is_new)
        raise


def resume_sweep(
    path: Path,
    experiment: BaseExperiment | None = None,
    *,
    n_parallel: int | None = None,
    n_trials: int | None = None,
    silent: bool = False,
) -> SweepResult:
    """Go on with a sweep: finished trials stay, running ones go on from their checkpoints; see `sweep`."""
    loaded, wanted = open_sweep(path, experiment)
    with locked(path):
        if n_trials is not None and n_trials != wanted:
            wanted = n_trials
            change_n_trials(path, wanted)
        trials = read_trials(path, loaded.space.space)
        searcher = _searcher(loaded, path, wanted)
        try:
            searcher.restore([trial.as_past() for trial in trials])
        except BaseException as error:
            searcher.close()
            raise loaded.locate(error) if isinstance(error, RequestError) else error
        return _train(loaded, path, searcher, trials, wanted, n_parallel, silent)


def dry_run(loaded: LoadedSweep, n_trials: int | None = None) -> list[Mapping[str, Any]]:
    """The settings of the trials that would run, checked; a searcher that learns hears of no value. Nothing is kept.

    Raises:
        ExperimentError: a trial does not fit the experiment.
    """
    _check_conflicts(loaded)
    wanted = loaded.file.n_trials if n_trials is None else n_trials
    draws: list[Draw] = []
    with tempfile.TemporaryDirectory() as folder:
        searcher = _searcher(loaded, Path(folder), wanted, dry_run=True)
        try:
            while not wanted or len(draws) < wanted:
                draw = searcher.propose(len(draws))
                if draw is None:
                    break
                draws.append(draw)
        finally:
            searcher.close()
    problems = Problems(origin=loaded.origin)
    check_draws(loaded.space, loaded.base, problems, draws)
    problems.raise_if_any()
    return [loaded.space.space.settings(draw) for draw in draws]


def _check_conflicts(loaded: LoadedSweep) -> None:
    """Refuse settings without effect; a sweep that began with some, before they were refused, can still go on."""
    problems = Problems(origin=loaded.origin)
    check_conflicts(loaded.space, loaded.base, problems)
    problems.raise_if_any()


def _searcher(loaded: LoadedSweep, path: Path, n_trials: int, *, dry_run: bool = False) -> Searcher:
    """What chooses the trials; every trial of a grid is checked before the first one starts."""
    context = SearchContext(
        name=loaded.name,
        space=loaded.space.space,
        n_trials=n_trials,
        maximize=not loaded.metric.minimize,
        seed=loaded.file.seed,
        folder=path.resolve(),
        dry_run=dry_run,
    )
    selection = loaded.file.searcher or select(
        loaded.catalog,
        "searcher",
        loaded.catalog.default("searcher").component.name,  # type: ignore[call-overload]
    )
    try:
        searcher = build(selection, context)
    except RequestError as error:
        raise loaded.locate(error) from None
    if isinstance(searcher, GridSearcher):
        problems = Problems(origin=loaded.origin)
        draws = (searcher.propose(number) for number in range(searcher.n_trials))
        check_draws(loaded.space, loaded.base, problems, [draw for draw in draws if draw is not None])
        problems.raise_if_any()
    return searcher  # type: ignore[no-any-return]


def _train(
    loaded: LoadedSweep,
    path: Path,
    searcher: Searcher,
    trials: Sequence[SweepTrial],
    n_trials: int,
    n_parallel: int | None,
    silent: bool,
) -> SweepResult:
    file = loaded.file
    selection = _pool(loaded, n_parallel)
    timeout = file.timeout_seconds or selection.option("timeout_seconds")
    if selection.takes("timeout_seconds"):
        selection = selection.with_options(timeout_seconds=None)
    with contextlib.ExitStack() as stack:
        stack.callback(searcher.close)
        pool = stack.enter_context(make_pool(selection))
        runs = stack.enter_context(ParallelRuns(pool, pool.n_workers, timeout_seconds=timeout))
        table = None if silent else stack.enter_context(LiveTable(HEADER))
        progress = SweepProgress(
            table,
            n_trials=searcher.n_trials if isinstance(searcher, GridSearcher) else n_trials,
            n_seeds=len(file.search_seeds),
            n_confirm=0 if file.confirm is None else file.confirm.top * len(file.confirm_seeds),
            n_parallel=runs.n_parallel,
            minimize=loaded.metric.minimize,
        )
        driver = SweepDriver(loaded, path, searcher, runs, n_trials=n_trials, trials=trials, progress=progress)
        interrupted = driver.train()
        found = tuple(sorted(driver.trials.values(), key=lambda trial: trial.number))
        result = SweepResult(
            path=path,
            metric=loaded.metric.tag,
            minimize=loaded.metric.minimize,
            trials=found,
            best=best_trial(found, loaded.metric.minimize),
            importances=dict(searcher.importances()),
            interrupted=interrupted,
        )
    if interrupted is None:
        _report(loaded.catalog, path)
    return result


def _pool(loaded: LoadedSweep, n_parallel: int | None) -> Selection:
    """Workers for whole runs: a processor each, or one worker alone where the experiment has workers of its own."""
    workers = loaded.file.workers
    if workers is not None:
        return workers if n_parallel is None else with_count(loaded.catalog, workers, n_parallel)
    alone = loaded.base.loaded.experiment.workers is not None
    return with_count(loaded.catalog, None, n_parallel or (1 if alone else os.cpu_count() or 1))


def _report(catalog: Catalog, path: Path) -> None:
    """`report.html`, where the command `report` is installed; a report that fails is no failure of the sweep."""
    try:
        report = catalog.load(catalog.find("command", "report"))
        with contextlib.redirect_stderr(io.StringIO()):
            report([path], out=path / "report.html")
    except Exception:
        return


def _remove(path: Path, is_new: bool) -> None:
    """A folder in which nothing began; one that was there before stays, empty."""
    if is_new:
        shutil.rmtree(path, ignore_errors=True)
        return
    for entry in path.iterdir():
        entry.unlink(missing_ok=True) if not entry.is_dir() else shutil.rmtree(entry, ignore_errors=True)
