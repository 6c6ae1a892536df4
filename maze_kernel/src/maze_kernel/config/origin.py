"""Where experiment data came from: a file, the command line or Python, and how to point into it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeVar

import attrs

from maze_kernel.config.positions import KeyPath, Place, Span
from maze_kernel.errors import Location

_WIDEST_LINE = 140
COMMAND_LINE = "command line"
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class OverrideText:
    """One `--set` item as written, and where in it the key and the value stand."""

    text: str
    key: Span
    value: Span
    order: int = 0

    def location(self, span: Span) -> Location:
        prefix = "--set "
        column = len(prefix) + span.start + 1
        return excerpt(COMMAND_LINE, None, column, prefix + self.text, span.end - span.start)


@attrs.define(kw_only=True)
class Origin:
    """Turns key paths into locations.

    Attributes:
        file: path of the file as the user wrote it, or "<python>".
        text: the file with "\\n" line ends; "" for data built in Python.
        places: key path to its place in `text`.
        overrides: key paths that `--set` items have replaced.
        beneath: key paths that something else gave, a preset for one, to its name.
        python: whether the data are Python objects, which may hold instances, tuples and None.
    """

    file: str
    text: str = ""
    places: Mapping[KeyPath, Place] = attrs.field(factory=dict)
    overrides: dict[KeyPath, OverrideText] = attrs.field(factory=dict)
    beneath: dict[KeyPath, str] = attrs.field(factory=dict)
    python: bool = False
    _line_starts: list[int] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._line_starts = [0]
        self._line_starts += [index + 1 for index, character in enumerate(self.text) if character == "\n"]

    def key(self, path: KeyPath) -> Location:
        """Of the key itself; of the nearest table around it that the text spells, where it does not."""
        return self._locate(path, at_value=False)

    def value(self, path: KeyPath) -> Location:
        return self._locate(path, at_value=True)

    def order(self, path: KeyPath) -> tuple[int, int]:
        """Sorts problems: by place in the file, then by override."""
        if (override := self.override(path)) is not None:
            return 1, override.order
        place = _nearest(self.places, path)
        return 0, place.key.start if place is not None else 0

    def giver(self, path: KeyPath) -> str | None:
        """What stands beneath the file and gave the value there; None where file or override did."""
        return None if _nearest(self.overrides, path) else _nearest(self.beneath, path)

    def span(self, span: Span) -> Location:
        """A stretch of the file; one that runs over several lines is shown to the end of its first."""
        line = bisect_right(self._line_starts, span.start)
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        source = self.text[start:] if end < 0 else self.text[start:end]
        column = span.start - start
        length = min(span.end, start + len(source)) - span.start
        return excerpt(self.file, line, column + 1, source, length)

    def override(self, path: KeyPath) -> OverrideText | None:
        """The override that gave what stands at a path, or that made the table there."""
        given = _nearest(self.overrides, path)
        if given or not path or path in self.places or _nearest(self.beneath, path):
            return given
        return next((below for known, below in self.overrides.items() if known[: len(path)] == path), None)

    def _locate(self, path: KeyPath, *, at_value: bool) -> Location:
        if (override := self.override(path)) is not None:
            return override.location(override.value if at_value else override.key)
        if giver := self.giver(path):
            return Location(file=giver)
        place = _nearest(self.places, path)
        if place is None:
            return Location(file=self.file) if self.python else Location(file=self.file, line=1, column=1)
        exact = path in self.places
        return self.span(place.value if at_value and exact else place.key)


def _nearest(found: Mapping[KeyPath, T], path: KeyPath) -> T | None:
    """What stands at a path, or at the innermost table around it that there is something for."""
    return next((found[path[:n]] for n in range(len(path), 0, -1) if path[:n] in found), None)


def excerpt(file: str, line: int | None, column: int, source: str, length: int = 1) -> Location:
    """A location whose source line is printable; of a long line only its beginning is shown, or nothing."""
    if len(source) > _WIDEST_LINE:
        if column > _WIDEST_LINE - 10:
            return Location(file=file, line=line, column=column)
        source = source[:_WIDEST_LINE] + "…"
        length = min(length, _WIDEST_LINE - column + 1)
    return Location(file=file, line=line, column=column, source=printable(source), length=max(1, length))


def printable(text: str) -> str:
    """One character of output for each of input, none of which moves the cursor."""
    return "".join(character if character.isprintable() else " " if character == "\t" else "�" for character in text)


def show_path(path: KeyPath) -> str:
    """`wrappers.0.use`, quoted where TOML would quote."""
    return ".".join(_show_part(part) for part in path)


def _show_part(part: str | int) -> str:
    if isinstance(part, int):
        return str(part)
    bare = part and part.isascii() and part.replace("-", "").replace("_", "").isalnum()
    return part if bare or part == "-" else '"' + printable(part)[:40].replace("\\", "\\\\").replace('"', '\\"') + '"'
