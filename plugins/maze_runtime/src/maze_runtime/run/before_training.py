"""What is refused before a run begins, and by `maze check`: what can be told without building anything.

Components say so themselves: an options class, and one that stands within it, may have the method `check_ready`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from maze_kernel.errors import ComponentError, ExperimentError, MazeError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.run.placing import placed
from maze_runtime.run.trainer_needs import refuse_mode

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.config.experiment import Experiment


@runtime_checkable
class ChecksReadiness(Protocol):
    """Options that know whether their component can be built on this machine."""

    def check_ready(self) -> None:
        """Nothing where the component can be built; no file, server or connection is opened.

        Raises:
            RequestError: a package is missing, say, or an option is refused by the library that it is meant for.
        """
        ...


def check_before_training(experiment: Experiment, catalog: Catalog) -> None:
    """Refuse what would be refused as soon as the parts of the experiment are built.

    Raises:
        ExperimentError: every problem that components have with their options, shown there.
        RequestError: the trainer does not take the vector mode.
        PluginError: the experiment selects no model, and no installed one is the default.
        ComponentError: a component failed to say whether it can be built.
    """
    refuse_mode(experiment, catalog)
    if experiment.model is None:
        with placed(experiment.trainer):  # every trainer asks for one
            catalog.default("model")
    problems = [problem for selection in selections_in(experiment) if (problem := _problem_of(selection)) is not None]
    if problems:
        raise ExperimentError(problems)


def selections_in(value: Any) -> Iterator[Selection]:
    """Every component that is selected in an experiment or a part of it, outer ones before those in their options."""
    if isinstance(value, Selection):
        yield value
        value = value.options
    for part in _parts(value):
        yield from selections_in(part)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if attrs.has(type(value)):
        return [getattr(value, field.name) for field in attrs.fields(type(value))]
    return ()


def _own_checks(value: Any) -> Iterator[ChecksReadiness]:
    """Options of one component, and tables within them, that check something; none of components in their turn."""
    if isinstance(value, ChecksReadiness):
        yield value
    for part in _parts(value):
        if not isinstance(part, Selection):
            yield from _own_checks(part)


def _problem_of(selection: Selection) -> RequestError | None:
    """What the options of a component refuse, at its place in the experiment."""
    if selection.instance is not None:
        return None
    try:
        with placed(selection):
            for options in _own_checks(selection.options):
                _ask(options, selection)
    except RequestError as error:
        return error
    return None


def _ask(options: ChecksReadiness, selection: Selection) -> None:
    try:
        options.check_ready()
    except MazeError:
        raise
    except Exception as error:
        phase = f"checking {selection.kind} {selection.use!r}"
        raise ComponentError(f"{phase} failed: {type(error).__name__}: {error}", phase=phase) from error
