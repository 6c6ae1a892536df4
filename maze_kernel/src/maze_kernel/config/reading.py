"""What every step of structuring is given: what it may ask, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from maze_kernel.config.fields import OptionFields
from maze_kernel.config.origin import show_path
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems
from maze_kernel.errors import Location

INVALID: Any = type("Invalid", (), {"__repr__": lambda _self: "INVALID"})()
"""Stands for a value that has a problem."""


@attrs.frozen(kw_only=True)
class ComponentChoice:
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
        choose: (kind, use, location) -> ComponentChoice; raises RequestError where `use` names nothing.
        choices: kind -> names a user can choose from.
        default: kind -> the name that a table without `use` means; None where it has to say.
        bare: kind -> the name whose option `id` a text alone stands for; None where it stands for nothing.
        check_text: (option of a component, location); raises RequestError where it names code that may not be imported.
    """

    problems: Problems
    choose: Callable[[str, str, Location | None], ComponentChoice]
    choices: Callable[[str], tuple[str, ...]]
    default: Callable[[str], str | None] = lambda _kind: None
    bare: Callable[[str], str | None] = lambda _kind: None
    check_text: Callable[[str, Location | None], None] = lambda _text, _location: None

    @property
    def python(self) -> bool:
        return self.problems.origin.python

    def scratch(self) -> Reader:
        return attrs.evolve(self, problems=self.problems.scratch())


@attrs.frozen(kw_only=True)
class Scope:
    """Where in the data a value stands and whose it is.

    Attributes:
        advice: the next step after a problem; None in the kernel's own tables, which explain themselves.
        field: the class and field whose text explains a value there.
        takes: the keys of the table.
        non_finite: whether NaN and infinity are allowed.
        bounds: what the field's validator asks for.
    """

    path: KeyPath
    owner: str
    advice: str | None = None
    field: tuple[type, str] | None = None
    takes: tuple[str, ...] = ()
    non_finite: bool = False
    bounds: str | None = None

    @property
    def help(self) -> str | None:
        """One next step."""
        if self.advice is not None:
            return self.advice
        if self.field is not None:
            from maze_kernel.config.documentation import texts_of_class

            return texts_of_class(self.field[0]).fields.get(self.field[1])
        table = f"[{show_path(self.path)}]" if self.path else "the file"
        return f"{table} takes {', '.join(self.takes)}" if self.takes else None

    def at(self, *parts: str | int) -> Scope:
        return attrs.evolve(self, path=(*self.path, *parts), bounds=None)
