"""Commands as messages show them, to be copied into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shown_command(*words: object, settings: Iterable[str] = ()) -> str:
    """A command with its words quoted where a shell needs it, and a `--set` for each of the settings behind them."""
    return shlex.join([*map(str, words), *(word for item in settings for word in ("--set", item))])
