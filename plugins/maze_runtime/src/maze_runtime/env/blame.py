"""Whose mistake it is where the code of a component raises, or cannot be called as it has to be."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from maze_kernel.errors import ComponentError, Location, MazeError, RequestError
from maze_kernel.plugin_files import show_target
from maze_runtime.env.tracebacks import user_traceback

RAISED = (Exception, SystemExit)
"""What is caught of a component; an interruption is not its own."""


def class_of(component: object) -> str:
    """The class of a component as `use` would name it: "my_wrappers:Shifted"."""
    kind = type(component)
    return show_target(f"{kind.__module__}:{kind.__qualname__}")


def raise_blamed(
    error: Exception | SystemExit,
    who: str,
    where: str,
    *,
    owner: str,
    location: Location | None = None,
) -> NoReturn:
    """Raise what a component raised as its error, with the traceback of its own code.

    Args:
        error: one of Maze's own stays what it is, and learns its owner.
        who: "callback my_callbacks:Early".
        where: "in on_epoch".
        owner, location: of the error.
    """
    if isinstance(error, MazeError):
        error.owner = error.owner or owner
        raise error
    raised = ComponentError(
        f"{who} failed {where}: {type(error).__name__}: {error}",
        phase=f"{who}, {where}",
        owner=owner,
        location=location,
    )
    raised.user_traceback = user_traceback(error)
    raise raised from error


@contextmanager
def blamed(who: str, where: str, *, owner: str, location: Location | None = None) -> Iterator[None]:
    """What is raised inside is raised as the component's error; see `raise_blamed`."""
    try:
        yield
    except RAISED as error:
        raise_blamed(error, who, where, owner=owner, location=location)


def of_transform(transform: object, method: str) -> AbstractContextManager[None]:
    """What is raised inside is the transform's mistake."""
    name = class_of(transform)
    return blamed(f"wrapper {name}", f"in {method}", owner=name)


def require_signatures(component: object, contract: type, methods: Iterable[str], who: str) -> None:
    """Refuse methods that cannot be called with the arguments that their contract has; those that are missing pass.

    Raises:
        RequestError: shows the parameters that it has, and those that it needs.
    """
    for name in methods:
        method = getattr(component, name, None)
        wanted = list(inspect.signature(getattr(contract, name)).parameters)[1:]
        if callable(method) and not _takes(method, len(wanted)):
            raise RequestError(
                f"{name} of {who} cannot be called with {', '.join(wanted) or 'no arguments'}",
                received=f"{name}{inspect.signature(method)}",
                expected=f"{name}({', '.join(wanted)})",
                help="give it the parameters that are expected",
            )


def _takes(method: Any, n_arguments: int) -> bool:
    try:
        inspect.signature(method).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # one that was not written in Python
        return True
    return True
