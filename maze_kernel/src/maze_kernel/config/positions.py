"""Where each key and value of a TOML document stands in its text.

tomli checks and reads a document but gives no positions. The scanner here walks a document that tomli has already
accepted, so it looks only for where things begin and end; it judges nothing and converts nothing but keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import tomli

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top of a document: `("wrappers", 0, "use")`."""

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@attrs.frozen
class Span:
    """Characters `start` to `end` (exclusive) of a text."""

    start: int
    end: int


@attrs.frozen
class Place:
    """Where a key path stands: the key's own text, and its value's. A table's value is its header or its braces."""

    key: Span
    value: Span


def find_positions(text: str) -> dict[KeyPath, Place]:
    """The place of every key path of a valid document with "\\n" line ends.

    Elements of lists are there as well; the key of an element is its value. A table spelt by several headers or dotted
    keys stands where it is first named.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.places


def split_key(text: str) -> list[str]:
    """The parts of a dotted key as TOML spells it: `model."a.b".0` to `["model", "a.b", "0"]`.

    Raises:
        ValueError: the text is not a dotted key.
    """
    scanner = _Scanner(text)
    try:
        parts = scanner.dotted_key()
    except (IndexError, tomli.TOMLDecodeError) as error:
        raise ValueError(f"{text!r} is not a dotted key") from error
    if scanner.position != len(text) or any(span.start == span.end for _, span in parts):
        raise ValueError(f"{text!r} is not a dotted key")
    return [part for part, _ in parts]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.places: dict[KeyPath, Place] = {}
        self.table_counts: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        while True:
            self._skip_blank()
            if self.position >= len(self.text):
                return
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)

    def dotted_key(self) -> list[tuple[str, Span]]:
        parts = [self._key_part()]
        while True:
            self._skip_spaces()
            if self._peek() != ".":
                return parts
            self.position += 1
            self._skip_spaces()
            parts.append(self._key_part())

    def _header(self) -> KeyPath:
        is_array = self.text.startswith("[[", self.position)
        opening = self.position
        self.position += 2 if is_array else 1
        self._skip_spaces()
        parts = self.dotted_key()
        self.position += 2 if is_array else 1
        whole = Span(opening, self.position)
        path: KeyPath = ()
        for name, span in parts[:-1]:
            path = (*path, name)
            self.places.setdefault(path, Place(span, whole))
            path = self._enter_last(path)
        name, span = parts[-1]
        path = (*path, name)
        self.places.setdefault(path, Place(span, whole))
        if not is_array:
            return path
        index = self.table_counts.get(path, 0)
        self.table_counts[path] = index + 1
        path = (*path, index)
        self.places[path] = Place(span, whole)
        return path

    def _enter_last(self, path: KeyPath) -> KeyPath:
        """A header that passes through an array of tables means its last table."""
        count = self.table_counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: KeyPath) -> None:
        parts = self.dotted_key()
        self.position += 1  # the equals sign
        self._skip_spaces()
        path: KeyPath = (*table, *(name for name, _ in parts))
        value = self._value(path)
        for depth, (_, span) in enumerate(parts[:-1], start=len(table) + 1):
            self.places.setdefault(path[:depth], Place(span, span))
        self.places[path] = Place(parts[-1][1], value)

    def _value(self, path: KeyPath) -> Span:
        start = self.position
        first = self.text[start]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            while self.position < len(self.text) and self.text[self.position] not in ",]}#\n":
                self.position += 1
            return Span(start, start + len(self.text[start : self.position].rstrip()))
        return Span(start, self.position)

    def _array(self, path: KeyPath) -> None:
        for index, _ in enumerate(self._elements("]")):
            value = self._value((*path, index))
            self.places[(*path, index)] = Place(value, value)

    def _inline_table(self, path: KeyPath) -> None:
        for _ in self._elements("}"):
            self._pair(path)

    def _elements(self, closing: str) -> Iterator[None]:
        """Stops at the beginning of every element, which the caller walks over."""
        self.position += 1
        self._skip_blank()
        while self.text[self.position] != closing:
            if self.text[self.position] == ",":
                self.position += 1
            else:
                yield
            self._skip_blank()
        self.position += 1

    def _string(self) -> None:
        quote = self.text[self.position]
        width = 3 if self.text.startswith(quote * 3, self.position) else 1
        self._end_of_string(quote, width)
        while width == 3 and self._peek() == quote:  # up to two may stand right before the closing ones
            self.position += 1

    def _end_of_string(self, quote: str, width: int) -> None:
        closing = quote * width
        self.position += width
        while not self.text.startswith(closing, self.position):
            if self.position >= len(self.text):
                raise IndexError("unfinished string")
            escaped = quote == '"' and self.text[self.position] == "\\"
            self.position += 2 if escaped else 1
        self.position += width

    def _key_part(self) -> tuple[str, Span]:
        start = self.position
        if self._peek() in ('"', "'"):
            self._end_of_string(self.text[start], 1)
            spelt = self.text[start : self.position]
            return str(tomli.loads(f"key = {spelt}")["key"]), Span(start, self.position)
        while self._peek() in _BARE:
            self.position += 1
        return self.text[start : self.position], Span(start, self.position)

    def _peek(self) -> str:
        return self.text[self.position] if self.position < len(self.text) else "\0"

    def _skip_spaces(self) -> None:
        while self._peek() in " \t":
            self.position += 1

    def _skip_blank(self) -> None:
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif character in " \t\n":
                self.position += 1
            else:
                return
