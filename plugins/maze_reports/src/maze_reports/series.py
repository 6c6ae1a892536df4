"""Statistics of runs as NumPy columns, and as frames of pandas or polars: `load_series`.

Read from the files of the `csv` logger, which has a row an epoch and statistic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_reports.finding import find_runs
from maze_runtime.run.statistics_file import statistics_rows

if TYPE_CHECKING:
    import pandas
    import polars

COLUMNS = ("run", "split", "epoch", "env_steps", "wall_seconds", "tag", "value")
SPLITS = ("eval", "train")
_Row = tuple[str, str, int, int, float, str, float]


@attrs.frozen(kw_only=True, eq=False)
class Series:
    """One statistic of one run over its training, by rising epochs.

    Attributes:
        epoch: (E,) int64.
        env_steps: (E,) int64, environment steps until then.
        wall_seconds: (E,) float64, seconds until then.
        value: (E,) float64.
    """

    epoch: np.ndarray
    env_steps: np.ndarray
    wall_seconds: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.value)

    def axis(self, name: str) -> np.ndarray:
        """(E,) float64: "env_steps", "wall_seconds" or "epoch"."""
        return np.asarray(getattr(self, name), np.float64)


@attrs.frozen(kw_only=True, eq=False)
class SeriesTable:
    """All statistics of one or several runs, a row a run, epoch and statistic.

    >>> table = load_series("runs/demo")  # doctest: +SKIP
    >>> table.series("BaseEnvEvents/reward/mean").value  # doctest: +SKIP

    Attributes:
        run: (R,) object, the run directory as str.
        split: (R,) object, "train" or "eval".
        epoch: (R,) int64.
        env_steps: (R,) int64.
        wall_seconds: (R,) float64.
        tag: (R,) object, name of the statistic as str.
        value: (R,) float64.
    """

    run: np.ndarray
    split: np.ndarray
    epoch: np.ndarray
    env_steps: np.ndarray
    wall_seconds: np.ndarray
    tag: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.value)

    @property
    def runs(self) -> tuple[str, ...]:
        """The run directories that have statistics, in the order they were found."""
        return tuple(dict.fromkeys(self.run.tolist()))

    def tags(self, split: str = "eval") -> tuple[str, ...]:
        """The statistics there are, sorted."""
        return tuple(sorted(set(self.tag[self.split == split].tolist())))

    def series(self, tag: str, *, split: str = "eval", run: Path | str | None = None) -> Series:
        """One statistic of one run.

        Args:
            tag: its name.
            split: "eval" or "train".
            run: the run directory; None where the table holds a single one.

        Raises:
            RequestError: there is no such statistic, or it is not said of which run.
        """
        if run is None and len(self.runs) > 1:
            raise RequestError(f"the table holds {len(self.runs)} runs", help="say of which: series(tag, run=…)")
        rows = (self.split == split) & (self.tag == tag)
        if run is not None:
            rows &= self.run == str(run)
        if not rows.any():
            known = self.tags(split)
            raise RequestError(
                f"no statistic of {split} is called {tag!r}",
                expected=", ".join(known) or "none: the run has written no statistics",
                nearest=nearest(tag, known),
            )
        return Series(
            epoch=self.epoch[rows],
            env_steps=self.env_steps[rows],
            wall_seconds=self.wall_seconds[rows],
            value=self.value[rows],
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Column name to its array (R,)."""
        return {name: getattr(self, name) for name in COLUMNS}

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas.

        Raises:
            RequestError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise _not_installed("pandas") from error
        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars.

        Raises:
            RequestError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _not_installed("polars") from error
        return polars.DataFrame({name: column.tolist() for name, column in self.columns().items()})


def load_series(path: Path | str) -> SeriesTable:
    """The statistics of a run, or of all runs in a folder or sweep; warns of damaged rows, which are left out.

    Raises:
        RequestError: there is no run.
        CheckpointError: the `run.json` of one is damaged, or of another format.
    """
    return table_of(row for run in find_runs([path]) for row in read_rows(run, statistics_folder(run)))


def statistics_folder(run: Path, experiment: Mapping[str, Any] | None = None) -> Path:
    """Where the `csv` logger of a run wrote: in `statistics/` unless its experiment says otherwise.

    Args:
        run: a run directory.
        experiment: as resolved; None: it is read from the run.
    """
    from maze_runtime.run.directory import logger_folder, open_run

    return logger_folder(run, open_run(run).resolved if experiment is None else experiment, "csv", "statistics")


def read_rows(run: Path, folder: Path) -> Iterator[_Row]:
    """The rows of a run; see `maze_runtime.run.statistics_file` for what is left out, and said to be."""
    name = str(run)
    for split in SPLITS:
        for row in statistics_rows(folder / f"{split}.csv"):
            yield name, split, row.epoch, row.env_steps, row.wall_seconds, intern(row.tag), row.value


def table_of(rows: Iterable[_Row]) -> SeriesTable:
    """The columns of rows."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    kinds: Sequence[Any] = (object, object, np.int64, np.int64, np.float64, object, np.float64)
    arrays = [np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return SeriesTable(**dict(zip(COLUMNS, arrays, strict=True)))


def _not_installed(package: str) -> RequestError:
    return RequestError(f"{package} is not installed", help=f"pip install 'maze-reports[{package}]'")
