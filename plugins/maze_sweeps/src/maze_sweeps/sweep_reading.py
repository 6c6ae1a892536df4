"""From the file of a sweep, or Python data that say the same, to a checked sweep; every problem at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.catalog import Catalog
from maze_kernel.config.experiment import LoadedExperiment
from maze_kernel.config.fields import fields_of_class
from maze_kernel.config.load import reader_of
from maze_kernel.config.origin import Origin
from maze_kernel.config.positions import KeyPath, split_key
from maze_kernel.config.problems import Problems, cleaned
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.config.resolved import to_toml
from maze_kernel.config.source import files_beside, parse_toml, read_toml
from maze_kernel.config.structure import structure_options
from maze_kernel.errors import ExperimentError, MazeError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.run.metric_text import MEAN_REWARD
from maze_runtime.training.metric import Metric
from maze_sweeps.base_experiment import BaseExperiment, base_of_file, base_of_loaded, base_of_mapping
from maze_sweeps.checking import check_metric, check_space
from maze_sweeps.file import SweepFile
from maze_sweeps.space_reading import SpaceText, read_space

STORED_SWEEP = "sweep.toml"
STORED_EXPERIMENT = "experiment.toml"


@attrs.frozen(kw_only=True)
class LoadedSweep:
    """A sweep with what it came from.

    Attributes:
        text: its file verbatim.
        source: path of the file; "" for one from Python.
    """

    file: SweepFile
    text: str
    source: str
    origin: Origin
    space: SpaceText
    base: BaseExperiment
    metric: Metric

    @property
    def name(self) -> str:
        """Names its folder."""
        return self.file.name or self.base.loaded.experiment.name

    @property
    def catalog(self) -> Catalog:
        """Of the experiment's kernel."""
        return self.base.loaded.kernel.catalog  # type: ignore[no-any-return]

    def locate(self, error: RequestError) -> RequestError:
        """The error of a searcher, shown at what its `option` names: a leaf, an option of its own, a key at the top."""
        option = error.option or ""
        places: list[KeyPath] = [("searcher", option), (option,), ("searcher",)]
        at = self.space.leaves.get(option) or next((place for place in places if place in self.origin.places), None)
        if error.location is None and at is not None:
            is_table = option in self.space.leaves or at == ("searcher",)
            error.location = self.origin.key(at) if is_table else self.origin.value(at)
            error.option = error.option if at == ("searcher",) else None
        return error


def load_sweep(
    path: Path,
    *,
    overrides: Sequence[str] = (),
    experiment: BaseExperiment | None = None,
    import_paths: bool = True,
) -> LoadedSweep:
    """Read and check the file of a sweep.

    Args:
        overrides: `path=value` items for the experiment of every trial.
        experiment: in place of the one that the file names.

    Raises:
        ExperimentError: every problem of the file, or else of its experiment.
    """
    try:
        text, data, origin = read_toml(path)
    except RequestError as error:
        error.help = (error.help or "").replace("an experiment file, e.g. maze train cartpole.toml", "a sweep file")
        raise ExperimentError([cleaned(error)]) from None
    return _load(text, data, origin, str(path), path.parent, overrides, experiment, import_paths)


def experiment_path(file: Path) -> Path:
    """The experiment that the file of a sweep names, as far as it can be read; else the file itself."""
    try:
        _, data, _ = read_toml(file)
    except RequestError:
        return file
    return file.parent / str(data.get("experiment", file.name))


def sweep_from_mapping(
    data: Mapping[str, Any], *, overrides: Sequence[str] = (), experiment: LoadedExperiment | None = None
) -> LoadedSweep:
    """The sweep that Python data describe: what a file would hold; the experiment may be data, too.

    Args:
        experiment: in place of the one that the data name.

    Raises:
        ExperimentError: every problem of the data, or else of the experiment.
    """
    given = data.get("experiment")
    base = None
    if experiment is not None:
        base = base_of_loaded(experiment)
    elif isinstance(given, LoadedExperiment):
        base = base_of_loaded(given)
    elif isinstance(given, Mapping):
        base = base_of_mapping(given, overrides)
    stored = {**data, "experiment": str(given) if base is None else STORED_EXPERIMENT}
    if isinstance(data.get("space"), Mapping):
        stored["space"] = _with_dotted_keys(data["space"])
    text = to_toml(_without_tuples(stored))
    plain, origin = parse_toml(text, "<python>")
    return _load(text, plain, origin, "", Path(), overrides, base, True)


def _load(
    text: str,
    data: Mapping[str, Any],
    origin: Origin,
    source: str,
    folder: Path,
    overrides: Sequence[str],
    base: BaseExperiment | None,
    import_paths: bool,
) -> LoadedSweep:
    problems = Problems(origin=origin)
    if base is None:
        base = _base(data, problems, folder, overrides)
    kernel = Kernel.installed(report=False) if base is None else base.loaded.kernel
    reader = _with_defaults(reader_of(kernel.catalog, problems, import_paths), kernel.catalog)
    scope = Scope(path=(), owner=f"maze-sweeps {version('maze-sweeps')}")
    file = structure_options(data, fields_of_class(SweepFile), scope, reader, label="a sweep")
    space = None
    if isinstance(data.get("space"), Mapping):
        space = read_space(data["space"], {} if base is None else base.data, problems)
    metric = Metric.parse(MEAN_REWARD)
    if base is not None:
        metric = _metric(data, base)
        check_metric(metric, ("metric",) if "metric" in data else ("experiment",), base, problems)
        if space is not None and not len(problems):
            check_space(space, base, problems)
    if file is not INVALID:
        _check_seeds(file, problems)
    problems.raise_if_any()
    assert isinstance(file, SweepFile)
    assert space is not None
    assert base is not None
    return LoadedSweep(file=file, text=text, source=source, origin=origin, space=space, base=base, metric=metric)


def _base(data: Mapping[str, Any], problems: Problems, folder: Path, overrides: Sequence[str]) -> BaseExperiment | None:
    """The experiment that the file names; None where it names none that exists.

    Raises:
        ExperimentError: every problem of the experiment.
    """
    name = data.get("experiment")
    if not isinstance(name, str):
        return None
    path = folder / name
    if path.is_file():
        return base_of_file(path, overrides)
    problems.add(
        ("experiment",),
        f"there is no file {path}",
        at_value=True,
        nearest=files_beside(path, ".toml"),
        help="the experiment's path is relative to the file of the sweep",
    )
    return None


def _metric(data: Mapping[str, Any], base: BaseExperiment) -> Metric:
    given = data.get("metric")
    named = given if isinstance(given, str) else None
    experiment = base.loaded.experiment
    return Metric.parse(named, experiment.evaluation.evaluators) if named else Metric.of_experiment(experiment)


def _check_seeds(file: SweepFile, problems: Problems) -> None:
    both = set(file.search_seeds) & set(file.confirm_seeds)
    if both:
        problems.add(
            ("confirm", "seeds"),
            "the search has seen seeds that are to confirm it",
            at_value=True,
            received=", ".join(map(str, sorted(both))),
            help="name others, or say how many",
        )


def _with_defaults(reader: Reader, catalog: Catalog) -> Reader:
    """A searcher's table without `use` selects the default one."""

    def default(kind: str) -> str | None:
        if kind != "searcher":
            return reader.default(kind)
        try:
            return catalog.default(kind).component.name  # type: ignore[call-overload, no-any-return]
        except MazeError:
            return None

    return attrs.evolve(reader, default=default)


def _with_dotted_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in place of keys with dots, which a file writes without quotes."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            value = _with_dotted_keys(value)
        elif key == "choices" and isinstance(value, (list, tuple)):
            value = [_with_dotted_keys(item) if isinstance(item, Mapping) else item for item in value]
        try:
            *around, last = split_key(str(key))
        except ValueError:
            around, last = [], str(key)
        inner = result
        for part in around:
            inner = inner.setdefault(part, {})
        known = inner.get(last)
        inner[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _without_tuples(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _without_tuples(value) for key, value in data.items() if value is not None}
    return [_without_tuples(value) for value in data] if isinstance(data, (list, tuple)) else data
