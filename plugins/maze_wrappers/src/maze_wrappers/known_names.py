"""Observations and actions that an option names must exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError

_PLACE = "name it as it is called at this place in the [[wrappers]] list"


def require_known(
    names: Iterable[str], known: Collection[str], what: str, *, option: str, owner: str, help: str = _PLACE
) -> None:
    """Refuse a name that is none of the known ones.

    Args:
        names: those that the option names.
        known: those there are.
        what: what is missing, with the name as `{}`: "there is no observation {} to draw".

    Raises:
        RequestError: with the known names and the nearest of them.
    """
    for name in names:
        if name not in known:
            raise RequestError(
                what.format(repr(name)),
                expected=", ".join(sorted(known)) or "none: there is nothing of that kind",
                option=option,
                owner=owner,
                nearest=nearest(name, sorted(known)),
                help=help,
            )
