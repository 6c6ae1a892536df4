"""What every suite raises, and comparisons they share."""

from __future__ import annotations

import copy
import functools
import traceback
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import MazeError

_Arguments = ParamSpec("_Arguments")


class ConformanceError(AssertionError):
    """A component breaks a rule of its kind's contract."""


def require(condition: bool, rule: str) -> None:
    """Raise unless the rule holds.

    Raises:
        ConformanceError: with `rule` as its text.
    """
    if not condition:
        raise ConformanceError(rule)


def suite(check: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """A suite in which whatever the component raises is a `ConformanceError`, too; errors of Maze stay as they are."""

    @functools.wraps(check)
    def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            check(*args, **kwargs)
        except (ConformanceError, MazeError):
            raise
        except (Exception, SystemExit) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{frame.filename}:{frame.lineno}, {frame.name}"
            raise ConformanceError(f"it raised {type(error).__name__}: {error} ({place})") from error

    return checked


def unchanged(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives that leaves the dicts, arrays and tensors among its arguments as they are.

    Raises:
        ConformanceError: it changed one in place.
    """
    kept = [argument for argument in arguments if isinstance(argument, Mapping) or hasattr(argument, "shape")]
    before = [copy.deepcopy(argument) for argument in kept]
    result = function(*arguments)
    require(all(same(old, new) for old, new in zip(before, kept, strict=True)), f"{what} changes its argument in place")
    return result


def as_array(value: Any) -> np.ndarray:
    """A tensor, array or number as an array."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def same(one: Any, other: Any) -> bool:
    """Whether two nested values of dicts, sequences, arrays, tensors and plain values are equal, NaN like NaN."""
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, str) or one is None:
        return bool(one == other)
    a, b = as_array(one), as_array(other)
    if a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b, equal_nan=True)) if a.dtype.kind in "fc" else bool((a == b).all())


def change_parameters(module: Any) -> None:
    """Change all parameters in place, as an optimiser does."""
    import torch

    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            change = torch.rand(parameter.shape, generator=generator)
            parameter.add_(0.1 * change.to(parameter))


def require_member(space: spaces.Dict, values: Mapping[str, Any], what: str) -> None:
    """Raise unless a dict of single values lies in a Dict space, dtype included."""
    require(set(values) == set(space.spaces), f"{what} has keys {sorted(values)}, its space has {sorted(space.spaces)}")
    for name, inner in space.spaces.items():
        array = np.asarray(values[name])
        require(array.shape == inner.shape, f"{what} {name!r} has shape {array.shape}, its space says {inner.shape}")
        require(array.dtype == inner.dtype, f"{what} {name!r} has dtype {array.dtype}, its space says {inner.dtype}")
        require(bool(inner.contains(_plain(array, inner))), f"{what} {name!r} lies outside {inner}: {array}")


def _plain(array: np.ndarray, space: spaces.Space[Any]) -> Any:
    return space.dtype.type(array) if isinstance(space, spaces.Discrete) and space.dtype is not None else array
