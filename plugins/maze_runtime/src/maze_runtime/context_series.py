"""Several runs or episodes of one context's experiment: one run a seed, the trials of a sweep, episodes that failed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.config.load import select
from maze_kernel.config.resolved import plain
from maze_kernel.errors import EnvError, PluginError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.context_experiment import with_schedules_until
from maze_runtime.series.live_table import LiveTable
from maze_runtime.series.series import SeriesOptions, SeriesResult, train_series

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_runtime.playing.roll_out import RolloutResult

_HEADER = ("seed", "state", "epoch", "steps", "last value")


def train_seeds(
    loaded: LoadedExperiment,
    seeds: Sequence[int],
    *,
    n_epochs: int | None,
    callbacks: Sequence[Any],
    path: Path | None,
    n_parallel: int | None,
    silent: bool,
) -> SeriesResult:
    """Train the experiment once with each seed, and show how the runs do.

    Args:
        n_epochs: of each run; None: the trainer's own budget.
        callbacks: names or tables, besides those of the experiment.

    Raises:
        RequestError: these are no seeds, a callback is an object, or `train_series` refuses the folder or the pool.
    """
    loaded = _with_callbacks(loaded, callbacks)
    if n_epochs is not None:
        loaded = with_schedules_until(loaded, n_epochs, is_stored=True)
    seeds = _checked(seeds)
    with LiveTable(_HEADER, silent=silent) as table:
        options = SeriesOptions(n_parallel=n_parallel, until_epoch=n_epochs, table=None if silent else table)
        return train_series(
            loaded, seeds, path=path, options=options, on_path=lambda path: table.say(f"folder of the runs: {path}")
        )


def run_sweep(loaded: LoadedExperiment, settings: Mapping[str, Any], **options: Any) -> Any:
    """What `maze_sweeps.sweep` makes of the experiment.

    Args:
        settings: what the file of a sweep holds besides the experiment; those that are None are left out.
        options: of `sweep`.

    Raises:
        PluginError: the distribution is not installed.
        MazeError: as `maze_sweeps.sweep`.
    """
    try:
        sweep = importlib.import_module("maze_sweeps").sweep
    except (ImportError, AttributeError) as error:
        raise PluginError(
            "RunContext.sweep needs the distribution maze-sweeps", received=str(error), help="pip install maze-sweeps"
        ) from error
    given = {name: value for name, value in settings.items() if value is not None}
    return sweep({"name": loaded.experiment.name, **given}, experiment=loaded, **options)


def raise_first_error(result: RolloutResult) -> None:
    """Refuse episodes that failed.

    Raises:
        EnvError: with the error, the traceback and the seed of the first one.
    """
    failed = [episode for episode in result.episodes if episode.error is not None]
    if failed:
        first = failed[0]
        error = EnvError(
            f"{len(failed)} of {len(result.episodes)} episodes failed: {first.error}",
            owner=f"the episode with seed {first.seed}",
            help='on_error="record" returns failed episodes among the others',
            remote_traceback=first.traceback,
        )
        error.seed = first.seed
        raise error


def _with_callbacks(loaded: LoadedExperiment, callbacks: Sequence[Any]) -> LoadedExperiment:
    """The experiment with further callbacks, which every one of its runs builds for itself.

    Raises:
        RequestError: a callback is an object, which several runs would share.
    """
    for callback in callbacks:
        if not isinstance(callback, (str, Mapping, Selection)):
            raise RequestError(
                "a callback that is an object serves one run, and seeds= trains several",
                received=f"callbacks= with {type(callback).__qualname__}",
                expected="the name or the table of a callback component",
                help='name its class by import path: {"use": "my_module:MyCallback"}',
            )
    added = [select(loaded.kernel, "callback", callback) for callback in callbacks]
    experiment = loaded.experiment
    return attrs.evolve(
        loaded,
        experiment=attrs.evolve(experiment, callbacks=(*experiment.callbacks, *added)),
        resolved={**loaded.resolved, "callbacks": [*loaded.resolved["callbacks"], *map(plain, added)]},
    )


def _checked(seeds: Sequence[int]) -> tuple[int, ...]:
    listed = tuple(seeds) if isinstance(seeds, Sequence) and not isinstance(seeds, str) else ()
    whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in listed)
    if not listed or not whole or len(set(listed)) < len(listed):
        raise RequestError(
            "seeds= is no list of seeds",
            received=repr(seeds)[:80],
            expected="different integers of 0 and more, e.g. [0, 1, 2] or range(5)",
        )
    return listed
