"""Collects every problem of an experiment, each at its place, so that one look at the file mends them all."""

from __future__ import annotations

from typing import Any

import attrs

from maze_kernel.config.origin import Origin, printable, show_path
from maze_kernel.config.positions import KeyPath
from maze_kernel.errors import ExperimentError, RequestError

_LONGEST_TEXT = 2000


@attrs.define(kw_only=True)
class Problems:
    """What is wrong so far."""

    origin: Origin
    _found: list[tuple[tuple[int, int], RequestError]] = attrs.field(init=False, factory=list)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: KeyPath, what: str, *, at_value: bool = False, **details: Any) -> None:
        """Record a problem at a key (or its value); `{path}` in `what` becomes the dotted path."""
        location = self.origin.value(path) if at_value else self.origin.key(path)
        self.add_error(path, RequestError(what.replace("{path}", show_path(path)), location=location, **details))

    def add_error(self, path: KeyPath, error: RequestError) -> None:
        """Record a problem that was raised as an error."""
        error.owner = self.origin.giver(path) or error.owner
        self._found.append((self.origin.order(path), cleaned(error)))

    def in_order(self) -> list[RequestError]:
        """As they stand in the file, then those of the command line."""
        return [error for _, error in sorted(self._found, key=lambda found: found[0])]

    def raise_if_any(self) -> None:
        """Raise all of them as one ExperimentError."""
        if self._found:
            raise ExperimentError(self.in_order())

    def scratch(self) -> Problems:
        """An empty collection over the same origin, to try something out."""
        return Problems(origin=self.origin)

    def take(self, other: Problems) -> None:
        self._found += other._found


def cleaned(error: RequestError) -> RequestError:
    """The same error, none of whose texts breaks a line or moves the cursor, whatever the user's file holds."""
    error.what = _one_line(error.what)
    error.received, error.expected, error.owner, error.help = (
        None if text is None else _one_line(text) for text in (error.received, error.expected, error.owner, error.help)
    )
    error.nearest = tuple(_one_line(name) for name in error.nearest)
    return error


def _one_line(text: str) -> str:
    shown = printable(text.replace("\n", " "))
    return shown if len(shown) <= _LONGEST_TEXT else shown[: _LONGEST_TEXT - 1] + "…"


_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


def show_value(value: Any) -> str:
    """What was found, as TOML would spell it, with its type: `"7" (string)`."""
    if isinstance(value, dict):
        return f"a table of {len(value)} key{'s' * (len(value) != 1)}" if value else "an empty table"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)} element{'s' * (len(value) != 1)}" if len(value) else "an empty list"
    if isinstance(value, bool):
        return f"{str(value).lower()} (boolean)"
    if isinstance(value, str):
        text = printable(value.replace("\n", "\\n"))
        return f'"{text[:60]}{"…" * (len(text) > 60)}" (string)'
    kind = _KINDS.get(type(value), type(value).__name__)
    text = str(value)
    return f"{text[:60]}{'…' * (len(text) > 60)} ({kind})"
