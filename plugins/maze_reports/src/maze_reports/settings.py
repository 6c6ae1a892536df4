"""Experiments as flat settings, such as `trainer.lr`: which differ between runs, and names that tell them apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

Settings = Mapping[str, Any]
"""Dotted path to a value."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONGEST_VALUE = 40
ABSENT = "–"
"""Shown where an experiment has no such setting."""


def flat_settings(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of a resolved experiment by dotted path; an entry of a list goes by its `use` where that is unique."""
    return dict(_leaves("", experiment))


def settings_hash(settings: Settings, without: Collection[str] = ()) -> str:
    """Equal for equal settings, whatever object of Python they hold and wherever it lies in memory.

    Args:
        without: settings, or tables of them, that do not count.
    """
    counted = {path: value for path, value in settings.items() if not _below(path, without)}
    text = _ADDRESS.sub("", json.dumps(counted, sort_keys=True, default=str))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differing(tables: Sequence[Settings], without: Collection[str] = ()) -> list[str]:
    """The settings that not all experiments share: selections first, then by path."""
    paths = {path: None for table in tables for path in table if not _below(path, without)}
    found = [path for path in paths if len({setting_text(table, path) for table in tables}) > 1]
    return sorted(found, key=lambda path: (not path.endswith((".use", ".id")), path.count("."), path))


def short_names(tables: Sequence[Settings], without: Collection[str] = ()) -> list[str]:
    """A name for each experiment that tells it from the others, with as few settings as can be.

    What a setting selects goes by itself, such as `ppo`, everything else as `lr=0.001`.
    """
    chosen: list[str] = []
    paths = differing(tables, without)
    while len(_told_apart(tables, chosen)) < len(tables):
        gains = {path: len(_told_apart(tables, [*chosen, path])) for path in paths if path not in chosen}
        best = max(gains, key=lambda path: (gains[path], -paths.index(path)), default=None)
        if best is None or gains[best] <= len(_told_apart(tables, chosen)):
            break
        chosen.append(best)
    return distinct([short_name(table, chosen) for table in tables])


def short_name(table: Settings, paths: Sequence[str]) -> str:
    """An experiment by some of its settings."""
    return ", ".join(_part(table, path) for path in paths)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, of which a second and further one that is spelt like another gets a number."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def shown(value: Any) -> str:
    """A value in a table, of bounded length."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if isinstance(value, float):
        text = f"{value:g}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), part)
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        uses = [part.get("use") for part in value]
        for index, part in enumerate(value):
            unique = isinstance(uses[index], str) and uses.count(uses[index]) == 1
            yield from _leaves(f"{path}.{uses[index] if unique else index}", part)
    else:
        yield path, value


def _below(path: str, tables: Collection[str]) -> bool:
    return any(path == table or path.startswith(f"{table}.") for table in tables)


def setting_text(table: Settings, path: str) -> str:
    """A setting as text, equal for equal values; of bounded length it is `shown`."""
    return str(_ADDRESS.sub("", json.dumps(table[path], default=str))) if path in table else ABSENT


def _told_apart(tables: Sequence[Settings], paths: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(setting_text(table, path) for path in paths) for table in tables}


def _part(table: Settings, path: str) -> str:
    """What is selected goes by itself, everything else as `lr=0.001`."""
    above, _, last = path.rpartition(".")
    if last in ("use", "id"):
        return shown(table[path]) if path in table else f"no {above.rpartition('.')[2]}"
    return f"{last}={shown(table.get(path, ABSENT))}"
