"""Errors of environments and wrappers, shown where the experiment selects these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maze_kernel.errors import ComponentError, MazeError
from maze_kernel.selection import Selection
from maze_runtime.env.tracebacks import user_traceback


@contextmanager
def placed(selection: Selection) -> Iterator[None]:
    """What is raised inside gets the selection's place in the file, its owner and a next step, where it has none.

    An error that names an option is placed at that option.
    """
    try:
        yield
    except MazeError as error:
        error.location = error.location or selection.places.get(error.option or "", selection.location)
        error.owner = error.owner or selection.owner
        cause = error.__cause__ if isinstance(error, ComponentError) else None
        if cause is not None and error.user_traceback is None:
            error.user_traceback = user_traceback(cause)
        if not error.help and selection.instance is None:
            error.help = f"maze describe {selection.kind} {selection.use} lists the options"
        raise
