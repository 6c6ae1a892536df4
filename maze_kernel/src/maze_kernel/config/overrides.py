"""`--set path=value`: replaces one value of the data that a file gave."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import tomli

from maze_kernel.catalog import nearest
from maze_kernel.config.origin import OverrideText, show_path
from maze_kernel.config.positions import KeyPath, Span, split_key
from maze_kernel.config.problems import Problems
from maze_kernel.config.source import MAX_DEPTH, deeper_than
from maze_kernel.errors import RequestError

_MAX_CHARACTERS = 1 << 16
_BARE = re.compile(r"[A-Za-z_./][\w./:+-]*")
_NO_WORDS = ("true", "false", "none", "null", "nil")


def apply_overrides(data: dict[str, Any], items: Sequence[str], problems: Problems) -> dict[str, Any]:
    """A copy of the data with each `path=value` set, in the order given; later ones win. A bare word is text.

    A path has dots and list indices (`wrappers.0.n`), or in place of an index what the element uses, where no other
    uses it (`wrappers.time-limit.n`); the index after the last one appends. Missing tables are made, numbered ones for
    lists. Problems are recorded and the item left out.
    """
    result = copy.deepcopy(data)
    for order, item in enumerate(items):
        _apply(result, item, order, problems)
    return result


def _apply(data: dict[str, Any], item: str, order: int, problems: Problems) -> None:
    split = equals_sign(item)
    written, value_text = item[:split].strip(), item[split + 1 :].strip()
    value_start = len(item) - len(item[split + 1 :].lstrip())
    key = Span(0, max(1, len(item[:split].rstrip())))
    value_span = Span(value_start, max(value_start + 1, len(item.rstrip())))
    override = OverrideText(text=item, key=key, value=value_span, order=order)
    marker: KeyPath = ("--set", order)
    problems.origin.overrides[marker] = override
    try:
        names = split_key(written)
    except ValueError:
        names = []
    if split == len(item) or not names:
        problems.add(
            marker,
            "an override is written path=value",
            received=item[:80] or "nothing",
            help="for example --set trainer.lr=1e-3",
        )
        return
    if not value_text:
        problems.add(marker, f"no value is given for {written}", help=f"write --set {written}=VALUE")
        return
    value = _parse(value_text, written, marker, problems)
    if value is not _FAILED:
        _place(data, names, value, override, marker, problems)


_FAILED: Any = object()


def equals_sign(item: str) -> int:
    """Where the first `=` outside quotes stands; the length where there is none."""
    quote = ""
    for index, character in enumerate(item):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "=":
            return index
    return len(item)


def _parse(text: str, name: str, marker: KeyPath, problems: Problems) -> Any:
    reason = "not a TOML value"
    if len(text) <= _MAX_CHARACTERS:
        try:
            parsed = tomli.loads(f"value = {text}")
            if list(parsed) == ["value"] and not deeper_than([parsed["value"]], MAX_DEPTH - 1):
                return parsed["value"]
        except RecursionError:
            reason = "nested too deeply"
        except ValueError:
            if _BARE.fullmatch(text) and text.lower() not in _NO_WORDS:
                return text
    problems.add(
        marker,
        f"the value given for {name} is {reason}",
        at_value=True,
        received=text[:80],
        expected='a TOML value: 3, 1e-3, true, "text", [64, 64]',
        help=_quoting(text, name),
    )
    return _FAILED


def _quoting(text: str, name: str) -> str:
    if text.lower() in ("true", "false"):
        return f"write --set {name}={text.lower()}"
    if text.lower() in _NO_WORDS:
        return "TOML has no null: take the key out of the file instead"
    if re.fullmatch(r"[^\"'\\\n\[{][^\"'\\\n]*", text):
        return f"quote text, and the quotes from your shell: --set '{name}=\"{text}\"'"
    return "put the whole item in single quotes, so that the shell leaves it alone"


def _place(
    data: dict[str, Any], names: list[str], value: Any, override: OverrideText, marker: KeyPath, problems: Problems
) -> None:
    try:
        path = key_path(data, names)
    except RequestError as error:
        error.location = problems.origin.key(marker)
        problems.add_error(marker, error)
        return
    container: Any = data
    for part in path:
        if isinstance(container, dict) and container.get(part) is None:
            container[part] = {}
        elif part == len(container):
            container.append({})
        around, container = container, container[part]
    around[path[-1]] = value
    _replace_places(path, override, problems)


def key_path(data: Any, names: Sequence[str]) -> KeyPath:
    """Where a dotted path leads, be there something or not; raises RequestError where it leads into a mere value."""
    path: KeyPath = ()
    for name in names:
        if isinstance(data, list):
            index = _index(data, name, path)
            path, data = (*path, index), data[index] if index < len(data) else None
        elif isinstance(data, dict) or data is None:
            path, data = (*path, name), None if data is None else data.get(name)
        else:
            raise RequestError(
                f"{show_path(path)} is a value and holds no {name}",
                received=f"{show_path(path)} = {data!r}"[:80],
                help=f"set {show_path(path)} itself",
            )
    return path


def _index(elements: list[Any], name: str, path: KeyPath) -> int:
    if name.isascii() and name.isdecimal() and len(name) < 9 and int(name) <= len(elements):
        return int(name)
    uses = [element.get("use") if isinstance(element, dict) else None for element in elements]
    if uses.count(name) == 1:
        return uses.index(name)
    raise RequestError(
        f"{show_path(path)} is a list and has {'several elements' if name in uses else 'no element'} {name}",
        expected=f"an index from 0 to {len(elements)}",
        nearest=nearest(name, {str(use) for use in uses if use}) if name not in uses else (),
        help=f"count from 0: {show_path(path)}.0...",
    )


def _replace_places(path: KeyPath, override: OverrideText, problems: Problems) -> None:
    """What was said about the replaced value no longer counts."""
    overrides = problems.origin.overrides
    for known in [known for known in overrides if known[: len(path)] == path]:
        del overrides[known]
    overrides[path] = override
