"""What a tracker is told about a run: where it came from, what it measured in an epoch, and its best model.

Read from the run directory, so that what a tracker missed can be told later; nothing here knows a tracker.
"""

from __future__ import annotations

import io
import json
import numbers
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.logger import EpochRecord
from maze_runtime.run.directory import RunRecord, logger_folder, open_run
from maze_runtime.run.statistics_file import statistics_rows

EPOCH_TAG = "run/epoch"
"""The number of the epoch, among its statistics; the last one that a tracker holds says where to go on."""
N_BINS = 64

Histogram = tuple[np.ndarray, np.ndarray]
"""Counts (n,) and edges (n + 1,)."""


@attrs.frozen(kw_only=True)
class TrackedEpoch:
    """The statistics of one epoch by tags such as "train_BaseEnvEvents/reward/mean", sorted by what they are.

    Attributes:
        figures: PNG files.
    """

    epoch: int
    env_steps: int
    numbers: dict[str, float] = attrs.field(factory=dict)
    histograms: dict[str, Histogram] = attrs.field(factory=dict)
    texts: dict[str, str] = attrs.field(factory=dict)
    figures: dict[str, bytes] = attrs.field(factory=dict)

    @property
    def step(self) -> int:
        """Where it stands on the horizontal axis: environment steps, or epochs of a trainer that takes none."""
        return self.env_steps or self.epoch

    @classmethod
    def of(cls, record: EpochRecord) -> TrackedEpoch:
        """What loggers are handed; figures are drawn here, before anybody changes them."""
        found = cls._begun(record.epoch, record.env_steps, record.wall_seconds)
        for prefix, statistics in (("train", record.train), ("eval", record.evaluation)):
            for tag, value in statistics.items():
                found._add(f"{prefix}_{tag}", value)
        return found

    @classmethod
    def _begun(cls, epoch: int, env_steps: int, wall_seconds: float) -> TrackedEpoch:
        return cls(
            epoch=epoch, env_steps=env_steps, numbers={EPOCH_TAG: float(epoch), "run/wall_seconds": wall_seconds}
        )

    def _add(self, tag: str, value: Any) -> None:
        if isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
            self.numbers[tag] = float(value)
        elif isinstance(value, np.ndarray):
            finite = value[np.isfinite(value)]
            if finite.size:
                self.histograms[tag] = np.histogram(finite, bins=N_BINS)
        elif hasattr(value, "savefig"):
            stream = io.BytesIO()
            value.savefig(stream, format="png")
            self.figures[tag] = stream.getvalue()
        else:
            self.texts[tag] = str(value)


@attrs.frozen(kw_only=True)
class RunFacts:
    """What describes a run, from its directory.

    Attributes:
        name: of the experiment.
        parameters: the resolved experiment by dotted keys; a list of tables counts from 0, values are as in JSON.
        overrides: the `--set` items it was started with.
        versions: of Python, of packages and of the source tree, by name.
        pictures: SVG files of its networks, if the `drawing` logger left any.
    """

    run_dir: Path
    name: str
    experiment: Mapping[str, Any]
    parameters: Mapping[str, str | int | float | bool]
    overrides: tuple[str, ...]
    versions: Mapping[str, str]
    pictures: tuple[Path, ...] = ()


def run_facts(run_dir: Path) -> RunFacts:
    """Read `run.json` and what stands beside it.

    Raises:
        MazeError: as `open_run`.
    """
    stored = open_run(run_dir)
    return RunFacts(
        run_dir=run_dir,
        name=stored.name,
        experiment=stored.resolved,
        parameters=flatten(stored.resolved),
        overrides=stored.overrides,
        versions=_versions(stored.record),
        pictures=tuple(sorted(logger_folder(run_dir, stored.resolved, "drawing", "figures").glob("*.svg"))),
    )


def flatten(data: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Nested tables by dotted keys; what is not set is left out.

    >>> flatten({"a": {"b": 1, "c": None}, "d": [{"e": True}], "f": [1, 2]})
    {'a.b': 1, 'd.0.e': True, 'f': '[1, 2]'}
    """
    return dict(_leaves("", data))


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        value = {str(index): item for index, item in enumerate(value)}
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(f"{key}.{name}" if key else str(name), item)
    elif isinstance(value, (str, int, float)):
        yield key, value
    elif value is not None:
        yield key, json.dumps(value)


def missed_epochs(run: RunFacts, after: int, until: int) -> list[TrackedEpoch]:
    """The numbers of the epochs after one and up to another, from the files of the `csv` logger; in order.

    Histograms, texts and figures are in no file, and an epoch that the files lack is left out; warns of damaged
    rows, which are, too.
    """
    folder = logger_folder(run.run_dir, run.experiment, "csv", "statistics")
    epochs: dict[int, TrackedEpoch] = {}
    for split in ("train", "eval"):
        for row in statistics_rows(folder / f"{split}.csv"):
            if after < row.epoch <= until:
                begun = TrackedEpoch._begun(row.epoch, row.env_steps, row.wall_seconds)
                epochs.setdefault(row.epoch, begun).numbers[f"{split}_{row.tag}"] = row.value
    return [epochs[number] for number in sorted(epochs)]


def best_model(run_dir: Path) -> dict[str, Path]:
    """The files of the best model by their names in the run directory; none where nothing was selected.

    A folder that holds them is a run that `maze rollout` plays.
    """
    best = run_dir / "checkpoints" / "best"
    if not best.is_dir():
        return {}
    files = [run_dir / "run.json", run_dir / "experiment.toml", *sorted(best.iterdir())]
    return {file.relative_to(run_dir).as_posix(): file.resolve() for file in files if file.is_file()}


def _versions(record: RunRecord) -> dict[str, str]:
    found = {"python": record.python, "platform": record.platform}
    found |= {name: version for name, version in record.packages.items() if version}
    if record.git is not None:
        found["git"] = record.git.commit + ("-dirty" if record.git.dirty else "")
    return {name: version for name, version in found.items() if version}
