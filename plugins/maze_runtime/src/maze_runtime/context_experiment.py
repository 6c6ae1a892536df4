"""From what Python callers give, a file or tables or objects, to one checked experiment."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.config.choices import KERNEL_OWNER
from maze_kernel.config.experiment import EvaluationOptions, LoadedExperiment
from maze_kernel.config.load import experiment_from_mapping, load_experiment, reader_of, select
from maze_kernel.config.origin import Origin, OverrideText
from maze_kernel.config.overrides import apply_overrides, equals_sign, key_path
from maze_kernel.config.plugin_table import plugin_files, read_plugin_table
from maze_kernel.config.positions import Span, split_key
from maze_kernel.config.presets import lay_presets
from maze_kernel.config.problems import Problems
from maze_kernel.config.reading import Scope
from maze_kernel.config.source import parse_toml, read_toml
from maze_kernel.config.structure import structure
from maze_kernel.errors import Location, RequestError
from maze_kernel.loader import Kernel
from maze_kernel.selection import Selection
from maze_runtime.context_components import component_table, tables_only, with_value
from maze_runtime.run.directory import open_run
from maze_runtime.run.naming import import_from, name_of_default
from maze_runtime.run.written import written_tables
from maze_runtime.training.resume import stored_experiment

if TYPE_CHECKING:
    from maze_runtime.run.directory import StoredRun

KINDS = {"env": "env", "trainer": "trainer", "model": "model", "wrappers": "wrapper"}
"""The arguments that choose components, and their kinds."""

_PYTHON, _NOWHERE = "<python>", Span(0, 0)
_Change = tuple[Sequence[str], Any]
"""The parts of a dotted path, and the value that is set there."""

Source = Path | str | Mapping[str, Any] | LoadedExperiment | None


@attrs.frozen(kw_only=True)
class _Argument(OverrideText):
    """An argument from Python in place of what a file says, whose lines it has not."""

    text: str = ""
    key: Span = _NOWHERE
    value: Span = _NOWHERE

    def location(self, span: Span) -> Location:
        """Python, whatever the span."""
        return Location(file=_PYTHON)


@attrs.frozen
class _Start:
    """What arguments are laid over.

    Attributes:
        tables: as they were written, without presets; components may be instances of `Selection`.
        origin: how error messages point into them.
        items: what `--set` said over the tables.
    """

    tables: dict[str, Any]
    kernel: Kernel
    origin: Origin = attrs.field(factory=lambda: Origin(file=_PYTHON, python=True))
    items: tuple[str, ...] = ()


def given_experiment(
    experiment: Source,
    components: Mapping[str, Any],
    overrides: Mapping[str, Any],
    seed: int | None,
    kernel: Kernel | None,
) -> LoadedExperiment:
    """The experiment that arguments describe, with the kernel it was checked against.

    Args:
        experiment: a file, its tables, one that was read before, or None for one made of the components alone.
        components: those of `KINDS` that take the place of the experiment's own.
        overrides: values by dotted path, as `--set` takes it, or as nested tables.
        seed: takes the place of the experiment's; None: does not.
        kernel: the plugins to use; None: as the experiment says.

    Raises:
        ExperimentError: every problem of the arguments.
    """
    if isinstance(experiment, (str, Path)):
        import_from(Path(experiment).parent)  # as the command does
    changes = {**overrides, **({} if seed is None else {"seed": seed})}
    changes = {path: value.item() if isinstance(value, np.generic) else value for path, value in changes.items()}
    if not components and not changes:
        if isinstance(experiment, LoadedExperiment):
            return experiment if kernel is None else attrs.evolve(experiment, kernel=kernel)
        if isinstance(experiment, (str, Path)):
            return load_experiment(experiment, kernel=kernel)
    start = _start(experiment, kernel)
    chosen = {name: _table(start.kernel, name, value) for name, value in components.items()}
    tables = _changed(start, chosen, [(_names(path), value) for path, value in changes.items()])
    return experiment_from_mapping(tables, kernel=start.kernel, origin=start.origin)


def reopened_experiment(
    run: Path | str, components: Mapping[str, Any], kernel: Kernel, evaluation: Mapping[str, Any] | None = None
) -> LoadedExperiment:
    """The experiment of a run, with components that its directory cannot hold.

    Args:
        components: those of `KINDS` that live in Python.
        evaluation: the table of that name, where its environments do; None: the stored one.

    Raises:
        RequestError: one that lives in Python is not given.
        ExperimentError: a component has a problem, or a plugin of the run is missing.
    """
    stored = open_run(run)
    _require_given(stored, components, evaluation, kernel)
    chosen = {name: _chosen(kernel, KINDS[name], _table(kernel, name, value)) for name, value in components.items()}
    if evaluation is not None:
        chosen["evaluation"] = _evaluation(kernel, {**stored.resolved["evaluation"], **evaluation})
    return stored_experiment(run, kernel=kernel, components=chosen)


def given(**components: Any) -> dict[str, Any]:
    """Those of the arguments that are not None."""
    return {name: value for name, value in components.items() if value is not None}


def checked_n_epochs(n_epochs: Any) -> int | None:
    """The argument `n_epochs` of `RunContext.train`, NumPy's integers as Python's.

    Raises:
        RequestError: it is neither None nor an integer of at least 1.
    """
    number: int | None = checked_integer("n_epochs", n_epochs, 1, "None for what is left of the trainer's budget")
    return number


def checked_integer(name: str, value: Any, least: int, or_none: str = "") -> Any:
    """An argument of `RunContext`, NumPy's integers as Python's; None, too, where `or_none` says what that means.

    Raises:
        RequestError: it is no such number.
    """
    if value is None and or_none:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise RequestError(
            f"{name}= is {value!r:.80}",
            expected=f"an integer of at least {least}" + (f", or {or_none}" if or_none else ""),
        )
    return number


def with_schedules_until(loaded: LoadedExperiment, epoch: int, *, is_stored: bool = False) -> LoadedExperiment:
    """The same experiment, whose schedules run up to an epoch where its trainer has no budget that says how far.

    Args:
        is_stored: run directories are to name that epoch as the budget; otherwise they name none, so that a later call
            may train on.
    """
    trainer = loaded.experiment.trainer
    if trainer.option("n_epochs", 0) or trainer.option("max_env_steps", 0):
        return loaded
    experiment = attrs.evolve(loaded.experiment, trainer=trainer.with_options(n_epochs=epoch))
    resolved = {**loaded.resolved, "trainer": {**loaded.resolved["trainer"], "n_epochs": epoch}}
    return attrs.evolve(loaded, experiment=experiment, resolved=resolved if is_stored else loaded.resolved)


def _start(experiment: Source, kernel: Kernel | None) -> _Start:
    if isinstance(experiment, LoadedExperiment):
        # as it was written: what defaults gave to one trainer is not for another
        text, file = experiment.text, experiment.path
        origin = parse_toml(text, file)[1] if text else Origin(file=file)
        origin.python = True
        return _Start(written_tables(experiment), kernel or experiment.kernel, origin, experiment.overrides)
    if isinstance(experiment, (str, Path)):
        return _read(Path(experiment), kernel)
    if experiment is not None and not isinstance(experiment, Mapping):
        raise RequestError(
            f"experiment= is a {type(experiment).__name__}",
            expected="an experiment file, its tables as a dict, or what load_experiment returns",
            help='write experiment="FILE.toml"; an environment goes to env=',
        )
    kernel = kernel or Kernel.installed()
    tables = dict(experiment or {})
    return _Start(
        {name: _table(kernel, name, value) if name in KINDS else value for name, value in tables.items()}, kernel
    )


def _read(path: Path, kernel: Kernel | None) -> _Start:
    """The tables of a file, unchecked, and the plugins that it asks for."""
    _, data, origin = read_toml(path)
    if kernel is None:
        problems = Problems(origin=origin)
        plugins = read_plugin_table(data, problems)
        kernel = Kernel.installed(disable=plugins.disable, load=plugin_files(plugins, path.parent, problems))
        problems.raise_if_any()
    origin.python = True  # as what is laid over it
    return _Start(dict(data), kernel, origin)


def _changed(start: _Start, components: Mapping[str, Any], changes: Sequence[_Change]) -> dict[str, Any]:
    """The tables with arguments over them, and with the default trainer where nothing names one."""
    problems, catalog = Problems(origin=start.origin), start.kernel.catalog
    tables = {"name": "run", **start.tables}
    written = _set_all(start, tables, components, changes, problems.scratch())
    laid = lay_presets(tables, written, written.get("preset") or (), catalog, problems.scratch())
    if "env" not in {**laid, **written}:
        raise RequestError(
            "there is no environment to run",
            received="neither env nor an experiment with one",
            help='give env="CartPole-v1", a factory of environments, or experiment="FILE.toml"',
        )
    if "trainer" not in {**laid, **components}:
        tables["trainer"] = {"use": name_of_default(catalog, "trainer")}
    for names in (
        *(_names(item[: equals_sign(item)].strip()) for item in start.items),
        *(names for names, _ in changes),
    ):
        tables = _with_list(tables, laid, names)
    tables = _set_all(start, tables, components, changes, problems)
    problems.raise_if_any()
    return tables


def _set_all(
    start: _Start,
    tables: dict[str, Any],
    components: Mapping[str, Any],
    changes: Sequence[_Change],
    problems: Problems,
) -> dict[str, Any]:
    tables = apply_overrides(tables, start.items, problems) if start.items else tables
    tables = {**tables, **components}
    argument = _Argument(order=len(start.items))
    problems.origin.overrides.update({(name,): argument for name in components})
    for names, value in changes:
        try:
            path = key_path(tables_only(tables), names)
            tables = with_value(tables, path, value)
            problems.origin.overrides[path] = argument
        except RequestError as error:
            problems.add_error(tuple(names), error)
    return tables


def _with_list(tables: Mapping[str, Any], laid: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The tables with the list of a preset that a path reaches into: lists are not completed, but taken whole."""
    if len(names) < 2 or names[0] not in laid:
        return dict(tables)
    own, below = tables.get(names[0], {}), laid[names[0]]
    if isinstance(below, Mapping) and isinstance(own, Mapping):
        return {**tables, names[0]: _with_list(own, below, names[1:])}
    return {**tables, names[0]: below} if isinstance(below, list) else dict(tables)


def _names(path: Any) -> list[str]:
    """The parts of a dotted path, as `--set` takes it."""
    try:
        return split_key(path if isinstance(path, str) else "")
    except ValueError:
        raise RequestError(
            "overrides= has a key that is no dotted path",
            received=repr(path)[:80],
            expected='for example {"trainer.lr": 1e-3}; what has a dot in it is quoted: {\'env.kwargs."a.b"\': 1}',
        ) from None


def _table(kernel: Kernel, name: str, value: Any) -> Any:
    if name != "wrappers":
        return component_table(kernel, KINDS[name], value)
    if isinstance(value, (str, Mapping, Selection)) or not hasattr(value, "__iter__"):
        raise RequestError(
            "wrappers= is a list of wrappers, the innermost first",
            received=type(value).__name__,
            help=f'write wrappers=["{value}"]' if isinstance(value, str) else "put it in a list",
        )
    return [component_table(kernel, "wrapper", wrapper) for wrapper in value]


def _chosen(kernel: Kernel, kind: str, table: Any) -> Any:
    """Checked here, where a path names code that the caller, not the run directory, wants to import."""
    return [select(kernel, kind, one) for one in table] if isinstance(table, list) else select(kernel, kind, table)


def _evaluation(kernel: Kernel, table: Mapping[str, Any]) -> EvaluationOptions:
    problems = Problems(origin=Origin(file="<python>", python=True))
    scope = Scope(path=("evaluation",), owner=KERNEL_OWNER)
    options = structure(table, EvaluationOptions, scope, reader_of(kernel.catalog, problems))
    problems.raise_if_any()
    assert isinstance(options, EvaluationOptions)
    return options


def _require_given(
    stored: StoredRun, components: Mapping[str, Any], evaluation: Mapping[str, Any] | None, kernel: Kernel
) -> None:
    told = [name for name in KINDS if name not in components]
    places = [(KINDS[name], f"{name}=…", stored.resolved.get(name, {})) for name in told]
    if evaluation is None:
        table = stored.resolved.get("evaluation", {})
        for own in (table, *table.get("evaluators", {}).values()):
            places += [("evaluation", "evaluation={…}", own.get(name, {})) for name in ("env", "wrappers")]
    for what, argument, table in places:
        for part in table if isinstance(table, list) else [table]:
            outside = _outside(part, kernel)
            if outside is not None:
                raise RequestError(
                    f"the {what} of run {stored.path} lives in Python, which its directory does not hold",
                    received=f"{argument.partition('=')[0]} {outside}",
                    help=f'give it again: RunContext.load("{stored.path}", {argument})',
                )


def _outside(table: Any, kernel: Kernel) -> str | None:
    """What a stored table names that lives in Python: an import path or the description of an object, or None."""
    if not isinstance(table, Mapping):
        return None
    use = table.get("use")
    if "python-object" in table:
        return str(table["python-object"])
    if isinstance(use, str) and ":" in use and not kernel.catalog.names_plugin(use):
        return use
    return next((found for value in table.values() if (found := _outside(value, kernel))), None)
