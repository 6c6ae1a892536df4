"""What is wrong with what `reset` or `step` of somebody's environment returned, and what to return instead."""

from __future__ import annotations

from typing import Any

from maze_kernel.errors import EnvError

PARTS = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}
"""What they return."""

_N_SHOWN = 80
"""Characters of a value in a message."""


def wrong_result(call: str, result: Any, what_it_shows: str = "observation") -> EnvError:
    """The error of a call that did not return its parts.

    Args:
        call: "reset" or "step".
        result: what it returned.
        what_it_shows: the name of the first part.
    """
    parts = (what_it_shows, *PARTS[call][1:])
    n_values = len(result) if isinstance(result, (tuple, list)) else None
    if n_values == len(parts):
        return EnvError(
            f"the info that its {call} returned is not a dict",
            received=_shown(result[-1]),
            expected="a dict, {} where there is nothing to tell",
        )
    help_ = f"return {', '.join(parts)}"
    if (call, n_values) == ("step", 4):
        help_ += "; the older Gym had four: divide done into terminated (the task is over) and truncated (time is up)"
    return EnvError(
        f"its {call} did not return {', '.join(parts[:-1])} and {parts[-1]}",
        received=_shown(result) if n_values is None else f"{n_values} values",
        expected=f"a tuple of {len(parts)} values",
        help=help_,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _N_SHOWN else f"{type(value).__name__}: {text[:_N_SHOWN]}…"
