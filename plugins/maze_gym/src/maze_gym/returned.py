"""What `reset` of a Gymnasium environment takes and returns, and what to do where it is something else."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium

from maze_kernel.errors import EnvError
from maze_runtime.env.returned import wrong_result


def of_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """Observation and info of a reset.

    Raises:
        EnvError: it returned something else.
    """
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise wrong_result("reset", result)
    return result[0], result[1]


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
