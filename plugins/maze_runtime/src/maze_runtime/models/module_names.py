"""Names of observations, blocks and policy keys as names of modules, which may have no dots."""

from __future__ import annotations

from collections.abc import Sequence


def module_names(names: Sequence[str]) -> list[str]:
    """Each name with `-` for its dots, and so many more behind it as set it apart from the others.

    >>> module_names(["a", "b.c", "b-c"])
    ['a', 'b-c-', 'b-c']
    """
    given: dict[str, str] = {}
    for name in sorted(names, key=lambda name: ("." in name, name)):
        free = name.replace(".", "-")
        while free in given.values():
            free += "-"
        given[name] = free
    return [given[name] for name in names]
