"""Settings as they are written behind `--set`: `trainer.lr=0.001`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def set_items(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Path to value, as items that `maze train --set` takes."""
    return tuple(f"{path}={toml_value(value)}" for path, value in settings.items())


def path_text(parts: Sequence[str]) -> str:
    """Keys and indices joined by dots, quoted where TOML would."""
    return ".".join(key_text(part) for part in parts)


def key_text(key: str) -> str:
    """One key, quoted where TOML would."""
    return key if _BARE.fullmatch(key) else _quoted(key)


def toml_value(value: Any) -> str:
    """A boolean, number, text, list or table on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key_text(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
