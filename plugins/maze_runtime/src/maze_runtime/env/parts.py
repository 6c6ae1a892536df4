"""Parts of an environment that an experiment chooses: `reward = { use = "default", … }` in the env table."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from maze_kernel.errors import RequestError
from maze_runtime.env.importing import imported

PartT = TypeVar("PartT")


def build_part(
    table: Mapping[str, Any],
    known: Mapping[str, type[Any]],
    expected: type[PartT],
    what: str,
    option: str | None = None,
    **given: Any,
) -> PartT:
    """Build what a table selects: a reward aggregator, a conversion.

    Args:
        table: `use` is one of the known names or the import path "package.module:Class"; every other key is an
            option, a keyword-only parameter of the class. Without `use` it is the first known one.
        known: classes by name.
        expected: what the result must be an instance of.
        what: names the part in messages.
        option: the environment's option that holds the table, where messages shall be shown.
        given: what the environment passes to the classes that have parameters of these names.

    Raises:
        RequestError: an unknown name, a path that cannot be imported, options that do not fit.
    """
    options = dict(table)
    use = options.pop("use", next(iter(known), None))
    target = known[use] if use in known else _imported(use, known, what, f"{option}.use" if option else None)
    parameters = inspect.signature(target).parameters
    own = {name: value for name, value in given.items() if name in parameters}
    names = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY and name not in own]
    for name in options:
        if name not in names:
            raise RequestError(
                f"{what} {use!r} has no option {name!r}",
                option=f"{option}.{name}" if option else None,
                expected=", ".join(names) or "no options",
                nearest=tuple(difflib.get_close_matches(name, names, 3)),
            )
    try:
        part = target(**own, **options)
    except (TypeError, ValueError) as error:
        refused = f"{what} {use!r} refuses its options: {error}"
        raise RequestError(refused, option=option, received=str(options)) from error
    if not isinstance(part, expected):
        raise RequestError(
            f"{what} {use!r} is no {expected.__name__}",
            option=option,
            received=type(part).__name__,
            help=f"subclass {expected}",
        )
    return part


def _imported(use: Any, known: Mapping[str, type[Any]], what: str, option: str | None) -> Any:
    if isinstance(use, str) and ":" in use:
        return imported(use, option=option, known=tuple(known))
    raise RequestError(
        f"there is no {what} {use!r}",
        expected=f'{", ".join(map(repr, known))} or "package.module:Class"',
        option=option,
        nearest=tuple(difflib.get_close_matches(str(use), list(known), 3)),
    )
