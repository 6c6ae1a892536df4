"""What every step of structuring is given: what it may ask, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from maze_kernel.config.fields import OptionFields
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems
from maze_kernel.errors import Location

INVALID: Any = type("Invalid", (), {"__repr__": lambda _self: "INVALID"})()
"""Stands for a value that has a problem."""


@attrs.frozen(kw_only=True)
class Choice:
    """What a `use` stands for."""

    target: str
    owner: str
    fields: OptionFields
    describe: str
    """The command that lists its options."""
    summary: str = ""


@attrs.frozen(kw_only=True)
class Reader:
    """What structuring needs besides the value.

    Attributes:
        choose: (kind, use, location) -> Choice; raises RequestError where `use` names nothing that can be built.
        choices: kind -> names a user can choose from.
    """

    problems: Problems
    choose: Callable[[str, str, Location | None], Choice]
    choices: Callable[[str], tuple[str, ...]]

    @property
    def python(self) -> bool:
        return self.problems.origin.python

    def scratch(self) -> Reader:
        return attrs.evolve(self, problems=self.problems.scratch())


@attrs.frozen(kw_only=True)
class Scope:
    """Where in the data a value stands and whose it is."""

    path: KeyPath
    owner: str
    help: str
    non_finite: bool = False
    bounds: str | None = None

    def at(self, *parts: str | int) -> Scope:
        return attrs.evolve(self, path=(*self.path, *parts), bounds=None)
