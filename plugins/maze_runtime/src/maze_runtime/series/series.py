"""One experiment with several seeds: a folder with one run a seed, trained in parallel, and what they came to.

series.json      {"format": 1, "name": …, "seeds": [0, 1, 2], "experiment": …}
seed-0/          an ordinary run directory
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import FormatError, MazeError, RequestError
from maze_kernel.shown_command import shown_command
from maze_runtime.run.before_training import check_before_training
from maze_runtime.run.directory import encode_json_lenient, new_path
from maze_runtime.run.pools import KnowsRoom, make_pool, with_count
from maze_runtime.run.storage import Storage, replace_json
from maze_runtime.series.bootstrap import ConfidenceInterval, bootstrap_interval, mean
from maze_runtime.series.parallel_runs import ParallelRuns, RunEvent
from maze_runtime.series.run_actor import RunReport, RunTask
from maze_runtime.training.interruption import Interruption
from maze_runtime.training.metric import Metric
from maze_runtime.training.one_thread import refuse_beside_training

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.selection import Selection
    from maze_runtime.series.live_table import LiveTable

FORMAT = 1
_LOOK_SECONDS = 0.5


@attrs.frozen(kw_only=True)
class SeriesOptions:
    """How a series is trained; nothing here changes a number of an epoch.

    Attributes:
        n_parallel: runs at a time, on workers of the pool that the experiment names, or of the default one; 1: one
            after the other in this process. None: as many as there are processors, or 1 where the experiment has
            workers of its own.
        max_seconds: wall-clock budget of each run.
        until_epoch: the last epoch of each run; None: as the trainer says.
        table: where progress is shown; None: nowhere.
    """

    n_parallel: int | None = None
    max_seconds: float | None = None
    until_epoch: int | None = None
    table: LiveTable | None = None


@attrs.frozen(kw_only=True)
class SeedResult:
    """What became of one seed.

    Attributes:
        status: "done", "stopped early", "interrupted", "failed" or, of a seed that was never begun, "waiting".
        report: the last one of its run; None where it failed or was never begun.
        error: why it failed.
        best_metric: of the statistic that selects the best model.
    """

    seed: int
    run_dir: Path
    status: str = "waiting"
    report: RunReport | None = None
    error: MazeError | None = None

    @property
    def best_metric(self) -> float | None:
        """The best value of the metric that selects; None where nothing was selected."""
        return None if self.report is None or self.report.outcome is None else self.report.outcome.best_metric


@attrs.frozen(kw_only=True)
class SeriesResult:
    """What became of a series.

    Attributes:
        metric: the statistic that selects the best model of each run.
        minimize: whether less is better.
    """

    path: Path
    metric: str
    minimize: bool = False
    seeds: tuple[SeedResult, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every seed was trained to its end."""
        return all(result.status in ("done", "stopped early") for result in self.seeds)

    @property
    def scores(self) -> np.ndarray:
        """The best value of each seed that has one, in the order of the seeds."""
        return np.array([result.best_metric for result in self.seeds if result.best_metric is not None], float)

    @property
    def interval(self) -> ConfidenceInterval | None:
        """The bootstrap interval of the mean of the scores; None with fewer than five."""
        return bootstrap_interval([self.scores], mean)


def train_series(
    loaded: LoadedExperiment,
    seeds: Sequence[int],
    *,
    path: Path | None = None,
    options: SeriesOptions = SeriesOptions(),
    on_path: Callable[[Path], None] = lambda _path: None,
) -> SeriesResult:
    """Train an experiment once with each seed. A seed that fails does not keep the others from being trained.

    Args:
        loaded: its own seed is left out of account.
        path: a new folder; None: `runs/<name>/<UTC time>-<4 hex>/`.
        on_path: called with the folder before the first run begins.

    Raises:
        RequestError: the folder is in use, a component cannot be built on this machine, or the pool cannot train runs
            or has no room for them and their workers.
        WorkerError: workers could not be started.
    """
    check_before_training(loaded.experiment, loaded.kernel.catalog)
    selection = _pool(loaded, options.n_parallel, len(seeds))
    if selection is None:
        refuse_beside_training()
    path = new_path(Path("runs"), loaded.experiment.name) if path is None else path
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        is_series = (path / "series.json").is_file()
        go_on = f", or continue it with: {shown_command('maze', 'train', '--resume', path)}" if is_series else ""
        raise RequestError(f"the folder {path} exists and is not empty", help=f"name another one{go_on}")
    stored = {
        "format": FORMAT,
        "name": loaded.experiment.name,
        "seeds": list(seeds),
        "experiment": json.loads(encode_json_lenient(loaded.resolved)),
    }
    try:
        path.mkdir(parents=True, exist_ok=True)
        replace_json(Storage(), path / "series.json", stored)
    except OSError as error:
        raise RequestError(f"the folder {path} cannot be written: {error}") from error
    on_path(path)
    return _train(loaded, seeds, path, options, selection)


def resume_series(
    path: Path,
    loaded: LoadedExperiment | None = None,
    *,
    options: SeriesOptions = SeriesOptions(),
) -> SeriesResult:
    """Go on with a series: finished seeds stay, interrupted ones continue, others begin.

    Args:
        loaded: the experiment where it imports code by path; None: as the folder stores it.

    Raises:
        RequestError: it is no series, or the stored experiment needs code by path.
    """
    seeds = read_series(path)["seeds"]
    loaded = series_experiment(path) if loaded is None else loaded
    return _train(loaded, seeds, path, options, _pool(loaded, options.n_parallel, len(seeds)))


def series_experiment(path: Path) -> LoadedExperiment:
    """The experiment that the folder of a series describes; names resolve through installed plugins only.

    Raises:
        ExperimentError: it needs code by path, or a plugin that is missing.
    """
    stored, origin = read_series(path), str(path / "series.json")
    return experiment_from_mapping(stored["experiment"], kernel=None, origin=origin, import_paths=False)


def is_series(path: Path) -> bool:
    """Whether a folder is that of a series."""
    return (path / "series.json").is_file()


def read_series(path: Path) -> Mapping[str, Any]:
    """The content of `series.json`.

    Raises:
        RequestError: the folder has none, or it is damaged.
        FormatError: another version of Maze wrote it.
    """
    file = path / "series.json"
    try:
        stored = json.loads(file.read_bytes())
        if stored["format"] != FORMAT:
            raise FormatError(
                f"series {path} has another format", received=f"format {stored['format']}", expected=f"format {FORMAT}"
            )
        _ = [int(seed) for seed in stored["seeds"]], dict(stored["experiment"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RequestError(f"{file} cannot be read: {error!r}", help="give the folder of a series") from error
    return stored  # type: ignore[no-any-return]


def with_seed(loaded: LoadedExperiment, seed: int) -> LoadedExperiment:
    """The same experiment with another seed."""
    return attrs.evolve(
        loaded,
        experiment=attrs.evolve(loaded.experiment, seed=seed),
        resolved={**loaded.resolved, "seed": seed},
        overrides=(*(item for item in loaded.overrides if not item.startswith("seed=")), f"seed={seed}"),
    )


def _train(
    loaded: LoadedExperiment, seeds: Sequence[int], path: Path, options: SeriesOptions, selection: Selection | None
) -> SeriesResult:
    with make_pool(selection) as pool, ParallelRuns(pool, min(pool.n_workers, len(seeds))) as runs:
        series = _Series(loaded, path, seeds, runs, options)
        series.train()
    metric, results = series.metric, tuple(series.results.values())
    return SeriesResult(path=path, metric=metric.tag, minimize=metric.minimize, seeds=results)


def _pool(loaded: LoadedExperiment, n_parallel: int | None, n_seeds: int) -> Selection | None:
    """Workers for whole runs. Deadlines that the experiment gives its workers are meant for less than an epoch."""
    workers = loaded.experiment.workers
    n_parallel = n_parallel or (1 if workers is not None else os.cpu_count() or 1)
    n_parallel = min(n_parallel, n_seeds)
    if n_parallel == 1:
        return None
    selection = with_count(loaded.kernel.catalog, workers, n_parallel)
    if workers is not None:
        _check_room(workers, n_parallel)
    return selection.with_options(timeout_seconds=None) if selection.takes("timeout_seconds") else selection


def _check_room(workers: Selection, n_parallel: int) -> None:
    """Runs on workers have workers of their own, as the experiment says: let its pool refuse what has no place."""
    with make_pool(workers) as pool:
        if isinstance(pool, KnowsRoom):
            pool.check_room(n_parallel)


class _Series:
    """Starts the next seed whenever a worker is free.

    Attributes:
        metric: what selects the best models: as the experiment says, else as the trainer of the first run does.
    """

    def __init__(
        self,
        loaded: LoadedExperiment,
        path: Path,
        seeds: Sequence[int],
        runs: ParallelRuns,
        options: SeriesOptions,
    ) -> None:
        self._loaded = loaded
        self._runs = runs
        self.metric = Metric.of_experiment(loaded.experiment)
        self._options = options
        self._table = options.table
        self._waiting = list(seeds)
        self._latest: dict[int, RunReport] = {}
        self.results = {seed: SeedResult(seed=seed, run_dir=(path / f"seed-{seed}").resolve()) for seed in seeds}

    def train(self) -> None:
        interruption = Interruption(silent=self._table is None)
        interruption.finishing = "the epochs that run"
        with interruption:
            while self._waiting or self._runs.running:
                while self._waiting and self._runs.n_free and not interruption.received:
                    self._start(self._waiting.pop(0))
                if not self._runs.running:
                    return
                for event in self._runs.wait(_LOOK_SECONDS):
                    self._see(event, interruption.received)
                self._show()

    def _start(self, seed: int) -> None:
        task = RunTask(
            loaded=with_seed(self._loaded, seed),
            run_dir=self.results[seed].run_dir,
            max_seconds=self._options.max_seconds,
            until_epoch=self._options.until_epoch,
        )
        self._set(seed, status="running")
        self._runs.start(seed, task)

    def _see(self, event: RunEvent, signal: str | None) -> None:
        seed: int = event.key  # type: ignore[assignment]
        if event.error is not None:
            self._set(seed, status="failed", error=event.error)
            self._say(f"seed {seed} failed: {event.error.what}")
            return
        report = event.report
        assert report is not None, "an event without an error has a report"
        self._latest[seed] = report
        self.metric = report.metric or self.metric
        if report.outcome is not None:
            self._set(seed, status=report.outcome.status, report=report)
            self._say(f"seed {seed}: {report.outcome.status} after epoch {report.epoch}{self._best(report)}")
        elif signal is not None:
            self._runs.stop(seed, "interrupted", f"by {signal}")
        else:
            self._runs.advance(seed)

    def _set(self, seed: int, **changes: Any) -> None:
        self.results[seed] = attrs.evolve(self.results[seed], **changes)

    def _best(self, report: RunReport) -> str:
        best = report.outcome and report.outcome.best_metric
        return "" if best is None else f", best {self.metric.tag} {best:.6g}"

    def _say(self, line: str) -> None:
        if self._table is not None:
            self._table.say(line)

    def _show(self) -> None:
        if self._table is not None:
            self._table.show([self._row(result) for result in self.results.values()])

    def _row(self, result: SeedResult) -> list[str]:
        report = self._latest.get(result.seed)
        if report is None:
            return [str(result.seed), result.status, "", "", ""]
        value = self.metric.find(report.train, report.evaluation or None) if report.train else None
        return [
            str(result.seed),
            result.status,
            str(report.epoch),
            f"{report.env_steps:,}",
            "" if value is None else f"{value:.6g}",
        ]
