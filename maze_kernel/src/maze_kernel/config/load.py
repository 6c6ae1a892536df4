"""From a file, or from Python data, to one checked experiment. The parts of the work are in the modules beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.components import EnvComponent
from maze_kernel.config.choices import KERNEL_OWNER, Choices
from maze_kernel.config.experiment import Experiment, LoadedExperiment
from maze_kernel.config.fields import fields_of_class
from maze_kernel.config.origin import Origin
from maze_kernel.config.overrides import apply_overrides
from maze_kernel.config.plugin_table import check_required, plugin_files, read_plugin_table
from maze_kernel.config.presets import lay_presets, lay_trainer_defaults
from maze_kernel.config.problems import Problems, cleaned
from maze_kernel.config.reading import Reader, Scope
from maze_kernel.config.resolved import resolve_experiment
from maze_kernel.config.source import read_toml
from maze_kernel.config.structure import structure_options, structure_selection
from maze_kernel.errors import ExperimentError, RequestError
from maze_kernel.loader import Kernel
from maze_kernel.selection import Selection, own_copies


def load_experiment(
    path: str | Path, *, overrides: Sequence[str] = (), kernel: Kernel | None = None, import_paths: bool = True
) -> LoadedExperiment:
    """Read, override and check an experiment file.

    Args:
        path: the TOML file.
        overrides: `path=value` items, as behind `--set`.
        kernel: what `use` may name; None: everything installed, as the file's `[plugins]` table wants it. A
            kernel that is given decides alone: `disable` and `load` change nothing.
        import_paths: whether `use = "module:Class"` may import; False for a file inside a run directory.

    Raises:
        ExperimentError: every problem of the file and the overrides, in order.
    """
    path = Path(path)
    try:
        text, data, origin = read_toml(path)
    except RequestError as error:
        raise ExperimentError([cleaned(error)]) from None
    loaded = _experiment(data, overrides, origin, kernel, path.parent if import_paths else None)
    return attrs.evolve(loaded, text=text)


def experiment_from_mapping(
    data: Mapping[str, Any],
    *,
    kernel: Kernel | None,
    origin: str | Origin = "<python>",
    overrides: Sequence[str] = (),
    import_paths: bool = True,
) -> LoadedExperiment:
    """The experiment that Python data describe: what a file would hold, or components as names and instances.

    Args:
        data: is not changed.
        origin: what error messages call it, or how they point into it.

    Raises:
        ExperimentError: every problem of the data.
    """
    origin = origin if isinstance(origin, Origin) else Origin(file=origin, python=True)
    return _experiment(own_copies(dict(data)), overrides, origin, kernel, Path() if import_paths else None)


def select(
    kernel_or_catalog: Any, kind: str, value: Any, *, origin: str = "<python>", import_paths: bool = True
) -> Selection:
    """One component from its name, a table with `use`, or an instance.

    Raises:
        ExperimentError: every problem of the choice and its options.
    """
    problems = Problems(origin=Origin(file=origin, python=True))
    catalog = getattr(kernel_or_catalog, "catalog", kernel_or_catalog)
    reader = reader_of(catalog, problems, import_paths)
    selection = structure_selection(value, kind, Scope(path=(kind,), owner=KERNEL_OWNER), reader)
    problems.raise_if_any()
    assert isinstance(selection, Selection)
    return selection


def _experiment(
    data: dict[str, Any], overrides: Sequence[str], origin: Origin, kernel: Kernel | None, folder: Path | None
) -> LoadedExperiment:
    """Presets at the bottom, then the data, then overrides; without a folder nothing is imported by its path."""
    problems = Problems(origin=origin)
    written = apply_overrides(data, overrides, problems.scratch()) if overrides else data
    plugins = read_plugin_table(written, problems)
    if kernel is None:
        kernel = Kernel.installed(disable=plugins.disable, load=plugin_files(plugins, folder, problems))
    check_required(plugins, kernel, problems)
    laid = lay_presets(data, written, written.get("preset") or (), kernel.catalog, problems)
    laid = apply_overrides(laid, overrides, problems) if overrides else laid
    laid = lay_trainer_defaults(laid, kernel.catalog, problems)
    reader = reader_of(kernel.catalog, problems, folder is not None)
    rest = {key: value for key, value in laid.items() if key != "plugins"}
    experiment = structure_options(rest, fields_of_class(Experiment), Scope(path=(), owner=KERNEL_OWNER), reader)
    problems.raise_if_any()
    assert isinstance(experiment, Experiment)
    experiment = attrs.evolve(experiment, plugins=plugins)
    return LoadedExperiment(
        experiment=experiment,
        path=origin.file,
        overrides=tuple(overrides),
        resolved=resolve_experiment(experiment),
        data=data,
        kernel=kernel,
    )


def reader_of(catalog: Any, problems: Problems, import_paths: bool = True) -> Reader:
    """What structuring is given: the components of a catalog, and where problems go."""
    choices = Choices(catalog, import_paths)
    return Reader(
        problems=problems,
        choose=choices.choose,
        choices=choices.names,
        default=choices.default,
        bare=partial(choices.default, of=EnvComponent),
        check_text=choices.check_text,
    )
