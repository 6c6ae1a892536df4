"""Copies of environments in their state, random state included: what planning branches off."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from maze_kernel.errors import EnvError
from maze_runtime.env.simulation import Cloneable


def go_on_from(env: Any, other: Any) -> None:
    """Let an environment go on from where another one of its class is: by its own `clone_from`, or as `copy_state`.

    Raises:
        EnvError: the other one cannot be cloned.
    """
    if isinstance(env, Cloneable):
        env.clone_from(other)
    else:
        copy_state(env, other)


def copy_state(env: Any, other: Any, *, shared: tuple[str, ...] = (), simulation: Any = None) -> None:
    """Take over copies of all attributes of another environment of the same class; windows stay with the original.

    Args:
        env: gets them; its `structured_spaces` and its `render_mode` stay.
        other: stays as it is.
        shared: further attributes that both have alike and nobody changes.
        simulation: what `other` is made of and an error is to name; None: itself.

    Raises:
        EnvError: something in the other one cannot be copied.
    """
    try:
        ours, theirs = vars(env), vars(other)
        if hasattr(type(other), "__deepcopy__"):
            state = vars(copy.deepcopy(other))
        else:
            alike = [name for name in ("structured_spaces", *shared) if name in ours and name in theirs]
            state = _copy(theirs, other, {id(other): env} | {id(theirs[name]): ours[name] for name in alike})
        ours.update(state | {name: ours[name] for name in ("render_mode",) if name in ours})
    except EnvError:
        raise
    except Exception as error:
        named = type(other if simulation is None else simulation)
        raise EnvError(
            f"{named.__name__} cannot be cloned",
            received=f"{type(error).__name__}: {error}",
            expected="what copy.deepcopy copies",
            owner=f"{named.__module__}.{named.__qualname__}",
            help="write its method __deepcopy__(memo), which returns another one in the same state"
            + ("; or clone_from(other), which takes over the state of another one" if simulation is None else ""),
        ) from error


def copied(env: Any) -> Any:
    """A deep copy of an environment of any library; neither it nor those in it draw anything."""
    return _copy(env, env, {})


def _copy(value: Any, env: Any, memo: dict[int, Any]) -> Any:
    """`copy.deepcopy` of an environment or its attributes, with the state of those which are copied otherwise.

    Args:
        value: what is copied.
        env: the environment.
        memo: what stands for what, by identity.
    """
    parts = [part for part in _parts(env, set()) if id(part) not in memo]
    for part in (env, *parts):
        windows = (value for value in vars(part).values() if type(value).__module__.partition(".")[0] == "pygame")
        memo.update((id(window), None) for window in windows)
    # An EzPickle copies itself by being made again, which loses the state.
    made_again = [part for part in parts if "_ezpickle_args" in vars(part) and not hasattr(type(part), "__deepcopy__")]
    memo.update((id(part), object.__new__(type(part))) for part in made_again)
    for part in made_again:
        vars(memo[id(part)]).update(copy.deepcopy(vars(part), memo))
    twin = copy.deepcopy(value, memo)
    for part in parts:
        copied_part = memo.get(id(part), part)
        if copied_part is not part and "render_mode" in vars(copied_part):
            copied_part.render_mode = None
    return twin


def _parts(env: Any, known: set[int]) -> Iterator[Any]:
    """An environment and those in it, each once."""
    if id(env) not in known and _is_env(env):
        known.add(id(env))
        yield env
        for part in _contents(env):
            yield from _parts(part, known)


def _contents(env: Any) -> Iterator[Any]:
    for value in vars(env).values():
        if isinstance(value, (list, tuple)):
            yield from value
        elif isinstance(value, Mapping):
            yield from value.values()
        else:
            yield value


def _is_env(value: Any) -> bool:
    return hasattr(value, "__dict__") and hasattr(type(value), "step") and hasattr(type(value), "reset")
