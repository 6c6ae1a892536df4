"""Lives that an environment counts in `info`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_kernel.errors import RequestError


def number_in(info: Mapping[str, Any], key: str, owner: str) -> int:
    """What `info` says under a key.

    Args:
        info: of a reset or a step.
        key: whose number is wanted; an option of that name gave it.
        owner: whose option that is.

    Raises:
        RequestError: `info` has no such key.
    """
    if key in info:
        return int(info[key])
    raise RequestError(
        f"the environment counts no lives: info has no {key!r}",
        received=", ".join(sorted(info)) or "nothing",
        option="key",
        owner=owner,
        help="name the number in info that falls with each loss, or leave the wrapper out",
    )


def first_number_in(info: Mapping[str, Any], key: str, owner: str) -> int | None:
    """The same of a reset; None where its info is empty, as that of a Maze environment: then the first step tells.

    Raises:
        RequestError: `info` says something else.
    """
    return number_in(info, key, owner) if info else None
