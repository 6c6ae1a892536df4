"""What users name of their own modules, "package.module:attribute": every mistake in it is refused in the same form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maze_kernel.catalog import nearest
from maze_kernel.config.choices import import_target
from maze_kernel.errors import RequestError


def imported(
    path: str,
    *,
    owner: str | None = None,
    option: str | None = None,
    known: Sequence[str] = (),
    takes: type | tuple[type, ...] = (),
) -> Any:
    """The class, the function, or the object, that an import path names.

    Args:
        path: "package.module:attribute".
        owner: of the option, for messages; None: the component's that is built.
        option: where the path stands; "table.key" in a table. An error is shown there.
        known: names that may stand in the path's place.
        takes: classes whose objects are taken, too; others are taken if they can be called.

    Raises:
        RequestError: it is no import path; there is no such module or attribute; the module fails when it is imported,
            said with the file and the line of the user's code; what it names cannot be called.
    """
    module, _, attribute = path.partition(":")
    if not all((*module.split("."), *attribute.split("."))):
        raise RequestError(
            f"{path!r} is no import path",
            expected=", ".join(f'"{name}"' for name in known) + " or " * bool(known) + '"package.module:attribute"',
            nearest=nearest(path, known) or _with_colon(path),
            option=option,
            owner=owner,
            help="write the module, a colon, and the name of a class or function in it",
        )
    found = _imported(path, owner, option)
    if not callable(found) and not isinstance(found, takes):
        raise RequestError(
            f"{path} is not a class or function",
            received=type(found).__name__,
            option=option,
            owner=owner,
            help="name a class, or a function that makes what is wanted",
        )
    return found


def imported_module(name: str, *, owner: str | None = None, option: str | None = None) -> Any:
    """A module by its name, "package.module"; arguments and errors are those of `imported`."""
    return _imported(name, owner, option)


def _imported(path: str, owner: str | None, option: str | None) -> Any:
    try:
        return import_target(path)
    except RequestError as error:
        error.owner, error.option = owner, option
        raise


def _with_colon(path: str) -> tuple[str, ...]:
    """The import path that "package.module.Class" may stand for."""
    module, _, name = path.rpartition(".")
    return (f"{module}:{name}",) if module and name not in ("", "py") and ":" not in path else ()
