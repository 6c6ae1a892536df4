"""Errors of components, shown where the experiment selects these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from maze_kernel.catalog import build
from maze_kernel.errors import ComponentError, Location, MazeError
from maze_kernel.selection import Selection
from maze_runtime.env.blame import blamed
from maze_runtime.env.tracebacks import user_traceback


@contextmanager
def placed(selection: Selection) -> Iterator[None]:
    """What is raised inside gets the selection's place in the file, its owner and a next step, where it has none.

    An error that names an option is placed at that option.
    """
    try:
        yield
    except MazeError as error:
        error.location = error.location or _place(selection, error.option) or selection.location
        error.owner = error.owner or selection.owner
        cause = error.__cause__ if isinstance(error, ComponentError) else None
        if cause is not None and error.user_traceback is None:
            error.user_traceback = user_traceback(cause)
        if not error.help and selection.instance is None:
            error.help = f"maze describe {selection.kind} {selection.use} lists the options"
        raise


def built(selection: Selection, context: Any) -> Any:
    """The component; its own mistakes are shown where it is selected, and an error that names an option at that.

    Raises:
        MazeError: it cannot be built.
    """
    try:
        return build(selection, context)
    except MazeError as error:
        if isinstance(error, ComponentError) and error.phase == f"building {selection.kind} {selection.use!r}":
            with placed(selection):
                raise
        error.location = error.location or _place(selection, error.option)
        raise


def _place(selection: Selection, option: str | None) -> Location | None:
    """Where an option, "option.key" for one in a table, or what is around it was given; None: nowhere."""
    while option and option not in selection.places:
        option = option.rpartition(".")[0]
    return selection.places.get(option or "")


def in_use(selection: Selection, method: str) -> AbstractContextManager[None]:
    """What a component of the user's own raises in a method is its mistake.

    Of installed ones it passes: they call much that is not theirs, and the innermost frames say whose it is.
    """
    if not is_own(selection):
        return nullcontext()
    who = f"{selection.kind} {selection.use!r}"
    return blamed(who, f"in {method}", owner=selection.owner, location=selection.location)


def is_own(selection: Selection) -> bool:
    """Whether the user wrote the component: it is an object, a plugin file's, or named by its import path."""
    return selection.instance is not None or selection.owner == selection.use or selection.owner.endswith(".py")
