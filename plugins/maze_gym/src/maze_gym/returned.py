"""What `reset` and `step` of a Gymnasium environment return, and what to do where it is something else."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium

from maze_kernel.errors import EnvError

PARTS = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}

_N_SHOWN = 80
"""Characters of a value in a message."""


def of_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """Observation and info of a reset.

    Raises:
        EnvError: it returned something else.
    """
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise wrong_result("reset", result)
    return result[0], result[1]


def wrong_result(call: str, result: Any) -> EnvError:
    """The error of a `reset` or `step` that did not return its parts."""
    parts = PARTS[call]
    if isinstance(result, (tuple, list)) and len(result) == len(parts):
        return EnvError(
            f"the info that its {call} returned is not a dict",
            received=_shown(result[-1]),
            expected="a dict, {} where there is nothing to tell",
        )
    is_tuple = isinstance(result, (tuple, list))
    return EnvError(
        f"its {call} did not return {', '.join(parts[:-1])} and {parts[-1]}",
        received=f"{len(result)} values" if is_tuple else _shown(result),
        expected=f"a tuple of {len(parts)} values, as Gymnasium has it",
        help=_help(call, len(result) if is_tuple else 0),
    )


def require_reset_arguments(env: gymnasium.Env[Any, Any]) -> None:
    """Say of a `reset` that has just raised a TypeError whether it lacks the arguments which Gymnasium gives it.

    Raises:
        EnvError: it does.
    """
    parameters = inspect.signature(env.unwrapped.reset).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    if missing := [name for name in ("seed", "options") if name not in parameters]:
        raise EnvError(
            f"its reset does not take {' and '.join(missing)}",
            received=f"reset({', '.join(map(str, parameters.values()))})",
            expected="reset(*, seed=None, options=None)",
            help="give it these arguments, and call super().reset(seed=seed) first",
        )


def _help(call: str, n_values: int) -> str:
    if call == "step" and n_values == 4:
        return (
            "the older Gym had four values: divide `done` into terminated (the task is over) and truncated (time is up)"
        )
    return "return observation, {}" if call == "reset" else f"return {', '.join(PARTS[call])}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _N_SHOWN else f"{type(value).__name__}: {text[:_N_SHOWN]}…"
