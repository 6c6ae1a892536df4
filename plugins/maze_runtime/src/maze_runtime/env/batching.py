"""How spaces become arrays: allocation, checks and stacking, shared by every vector environment.

A Dict space of n environments is one array a key, `(n, *shape)` in the space's dtype. Which environment fills
which row is the business of the vector environments in the rollout room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Observation, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import ComponentError, EnvError, SpaceError

LEAF_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""The spaces a key of an observation or action space may have."""


@attrs.frozen
class RowLayout:
    """Shape and dtype of one key's array for one environment, without the batch dimension."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def layout(space: spaces.Dict) -> dict[str, RowLayout]:
    """The layout of every key of a Dict space, in the space's order; numbers in the byte order of this machine.

    Raises:
        SpaceError: a key is nested or has no array form.
    """
    result = {}
    for key, leaf in space.spaces.items():
        if not isinstance(leaf, LEAF_SPACES):
            raise SpaceError(
                f"the space of {key!r} is a {type(leaf).__name__}, which has no fixed array form",
                received=str(leaf),
                expected="Box, Discrete, MultiDiscrete or MultiBinary under each key",
                owner="maze-runtime environments",
                help="flatten nested spaces into one key a leaf; use a fixed-size Box for sequences and text",
            )
        result[key] = RowLayout(tuple(leaf.shape or ()), np.dtype(leaf.dtype).newbyteorder("="))
    return result


def allocate(space: spaces.Dict, *leading: int) -> ArrayDict:
    """Zeroed arrays, for n environments say: name to `(*leading, *shape)`."""
    return {key: np.zeros((*leading, *leaf.shape), leaf.dtype) for key, leaf in layout(space).items()}


def stack_rows(space: spaces.Dict, rows: Sequence[Mapping[str, Any]]) -> ArrayDict:
    """Copy single observations (or actions) into new arrays: name to `(len(rows), *shape)`."""
    arrays = allocate(space, len(rows))
    for index, row in enumerate(rows):
        for key, array in arrays.items():
            array[index] = row[key]
    return arrays


def copy_observation(space: spaces.Dict, observation: Mapping[str, Any]) -> Observation:
    """One observation as arrays of its own, in the space's dtypes."""
    return {key: np.array(observation[key], dtype=leaf.dtype) for key, leaf in space.spaces.items()}


def check_observation(space: spaces.Dict, observation: object) -> None:
    """Check keys, shapes and dtypes of one environment's observation, not its bounds.

    Raises:
        EnvError: it does not fit the space.
    """
    if not isinstance(observation, Mapping):
        raise EnvError("the observation is not a dict", received=type(observation).__name__, expected=str(space))
    expected = layout(space)
    if missing := [key for key in expected if key not in observation]:
        raise EnvError(
            f"the observation lacks the key {missing[0]!r}",
            received=", ".join(map(repr, observation)) or "no keys",
            expected=", ".join(map(repr, expected)),
        )
    for key, leaf in expected.items():
        value = np.asarray(observation[key])
        if value.shape != leaf.shape or not np.can_cast(value.dtype, leaf.dtype, "same_kind"):
            raise EnvError(
                f"the observation {key!r} does not fit its space",
                received=f"shape {value.shape}, dtype {value.dtype}",
                expected=f"shape {leaf.shape}, dtype {leaf.dtype}",
                help="return what the observation space declares, or correct the space",
            )


def require_rows(space: spaces.Dict, arrays: object, n: int, what: str) -> None:
    """Check names, shapes and dtypes of the rows that a wrapper makes of others, not their bounds.

    Raises:
        ComponentError: they do not fit the space.
    """
    if not isinstance(arrays, Mapping):
        raise _wrong_part(what, type(arrays).__name__, "a dict of arrays")
    for name, leaf in layout(space).items():
        if name not in arrays:
            raise _wrong_part(what, ", ".join(map(repr, arrays)) or "no names", f"the name {name!r}")
        array, shape = arrays[name], (n, *leaf.shape)
        if not isinstance(array, np.ndarray):
            raise _wrong_part(f"{what} {name!r}", type(array).__name__, f"an array of the shape {shape}")
        if array.shape != shape or not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
            received = f"shape {array.shape}, dtype {array.dtype}"
            raise _wrong_part(f"{what} {name!r}", received, f"shape {shape}, dtype {leaf.dtype}")


def _wrong_part(what: str, received: str, expected: str) -> ComponentError:
    """The error of a wrapper that returned something else than an observation, an action or a reward."""
    return ComponentError(
        f"the {what} that the wrapper returned does not fit its space",
        phase=f"the {what} of a wrapper",
        received=received,
        expected=expected,
        help="return what the spaces say that its bind returns, in new arrays of as many rows",
    )


def scalar_reward(reward: Any) -> float:
    """A reward as float: a number, a NumPy scalar or an array or list with one element.

    Raises:
        EnvError: it is none of them.
    """
    if isinstance(reward, (float, int, np.number)):
        return float(reward)
    try:
        array = np.empty(0) if reward is None or isinstance(reward, str) else np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.size != 1:
        raise EnvError(
            "the reward is not one number",
            received=repr(reward)[:200],
            expected="a float",
            help=_TEAM if array.size > 1 else None,
        )
    return float(array.reshape(()))


_TEAM = 'one reward an agent: [env] use = "pettingzoo" with the same id makes each entry of the Tuple spaces an agent'


def spaces_of(env: Any) -> StructuredSpaces:
    """The spaces of what a factory built.

    Raises:
        EnvError: it is no `StructuredEnv`, e.g. a bare `gymnasium.Env`, or counts the agents of some policy keys only.
    """
    structured_spaces = getattr(env, "structured_spaces", None)
    if not isinstance(structured_spaces, StructuredSpaces):
        raise EnvError(
            "what the factory built is no StructuredEnv: it has no structured_spaces",
            received=f"{type(env).__module__}.{type(env).__qualname__}",
            expected="a StructuredEnv (maze_kernel.contracts.env)",
            help="return a StructuredEnv; a gymnasium.Env is adapted where maze-gym is installed, "
            "or in place by maze_gym.env.GymEnv(env)",
        )
    uncounted = [key for key in structured_spaces.policy_keys if key not in structured_spaces.agent_counts]
    if uncounted:
        raise EnvError(
            f"agent_counts does not say how many agents policy key {uncounted[0]!r} has",
            received=str(dict(structured_spaces.agent_counts)),
            expected=f"a number for each of {', '.join(map(repr, structured_spaces.policy_keys))}",
            help="add it, -1 where it changes; or leave agent_counts out, where each key has one agent",
        )
    return structured_spaces


def require_dicts(structured_spaces: StructuredSpaces) -> None:
    """Check that observations and actions have names.

    Raises:
        EnvError: a space is no Dict.
    """
    for what, by_key in (("observation", structured_spaces.observation), ("action", structured_spaces.action)):
        for key, space in by_key.items():
            if not isinstance(space, spaces.Dict):
                raise EnvError(
                    f"the {what} space of policy key {key!r} is no Dict",
                    received=str(space),
                    expected="a gymnasium.spaces.Dict with a space under each name",
                    help=f"give it a name, spaces.Dict({what}=…), and values likewise; "
                    f'where it is not yours, the wrapper "dict-{what}" does',
                )


def check_same_spaces(all_spaces: Sequence[StructuredSpaces]) -> StructuredSpaces:
    """The spaces of a batch, which must be equal in all its environments.

    Raises:
        SpaceError: two environments differ; names the first one that does.
    """
    first = all_spaces[0]
    for index, other in enumerate(all_spaces[1:], start=1):
        if dict(other.observation) != dict(first.observation) or dict(other.action) != dict(first.action):
            raise SpaceError(
                f"environment {index} of the batch has other spaces than environment 0",
                received=f"{dict(other.observation)} {dict(other.action)}",
                expected=f"{dict(first.observation)} {dict(first.action)}",
                help="every environment of a batch needs the same spaces; pad where they differ",
            )
    return first
