"""Actions that an option gives by name, as those of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, PolicyKey, StructuredSpaces
from maze_kernel.errors import RequestError
from maze_wrappers.known_names import require_known


def given_actions(
    inner: StructuredSpaces, given: Mapping[str, Any], option: str, owner: str
) -> dict[PolicyKey, Action]:
    """The action that was given, for each policy key those of its names that it has.

    Args:
        inner: the spaces of the environment.
        given: a value for each action, by name.
        option: the option that gives it.
        owner: whose option that is.

    Raises:
        RequestError: there is no action of such a name, or the values are none of its space.
    """
    known = {head for space in inner.action.values() for head in space.spaces}
    require_known(given, known, "there is no action {}", option=option, owner=owner)
    return {key: _action(space, given, option, owner) for key, space in inner.action.items()}


def copied(action: Action) -> Action:
    """An action that the environment may change."""
    return {head: np.copy(value)[()] for head, value in action.items()}


def _action(space: spaces.Dict, given: Mapping[str, Any], option: str, owner: str) -> Action:
    action = {head: np.asarray(given[head], leaf.dtype)[()] for head, leaf in space.spaces.items() if head in given}
    if not space.contains(action):
        raise RequestError(
            f"{option} is no action of the environment",
            received=str(dict(given)),
            expected=str(space),
            option=option,
            owner=owner,
            help="give a value for each name",
        )
    return action
