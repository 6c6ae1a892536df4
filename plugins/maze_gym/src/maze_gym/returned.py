"""What Gymnasium's environments and batches return, taken apart; where it is something else, what to do about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from maze_kernel.errors import EnvError
from maze_runtime.env.returned import wrong_result


def of_reset(result: Any) -> tuple[Any, Any]:
    """Observation and info of a reset.

    Raises:
        EnvError: it returned something else.
    """
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise wrong_result("reset", result)
    return result[0], result[1]


def of_step(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Observation, reward, terminated, truncated and info of a step.

    Raises:
        EnvError: it returned something else.
    """
    if not (isinstance(result, (tuple, list)) and len(result) == 5 and isinstance(result[4], Mapping)):
        raise wrong_result("step", result)
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated, info


def require_row_each(n_envs: int, **arrays: Any) -> None:
    """Check that arrays hold one number for each environment of a batch.

    Raises:
        EnvError: names the first that does not.
    """
    for name, array in arrays.items():
        if np.shape(array) != (n_envs,):
            raise EnvError(
                f"the batched {name} is not one number an environment",
                received=f"shape {np.shape(array)}",
                expected=f"shape {(n_envs,)}",
            )


def final_observation(infos: Mapping[str, Any]) -> Any:
    """The last observations of a batch that has started the next episodes already.

    Raises:
        EnvError: they are missing.
    """
    if "final_obs" not in infos:
        raise EnvError(
            'infos["final_obs"] is missing where an episode has ended',
            received=f"infos with {', '.join(map(repr, infos)) or 'nothing'}",
            expected="the last observations, as metadata say autoreset_mode = AutoresetMode.SAME_STEP",
            help="put them there; or say NEXT_STEP, where the step after an end shows the first observation",
        )
    return infos["final_obs"]


def has_row_each(last: Any) -> bool:
    """Whether last observations are one object a row, as Gymnasium's own batches give them; else they are batched."""
    return isinstance(last, list) or (isinstance(last, np.ndarray) and last.dtype == object)


def final_rows(
    last: Any, rows: np.ndarray, n_envs: int, decode: Callable[[Any], dict[str, Any]]
) -> dict[str, np.ndarray]:
    """Copies of the last observations of some rows in Maze's form, (m, …), from either form of `infos["final_obs"]`.

    Raises:
        EnvError: batched ones have another number of rows.
    """
    if has_row_each(last):
        decoded = [decode(last[index]) for index in rows]
        return {key: np.stack([np.asarray(row[key]) for row in decoded]) for key in decoded[0]}
    batched = {key: np.asarray(array) for key, array in decode(last).items()}
    for key, array in batched.items():
        if array.shape[:1] != (n_envs,):
            raise EnvError(
                f'infos["final_obs"] has another number of rows than the batch in {key!r}',
                received=f"shape {array.shape}",
                expected=f"{n_envs} rows, of which those count whose episodes ended, or an object array of {n_envs}",
            )
    return {key: array[rows] for key, array in batched.items()}


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
