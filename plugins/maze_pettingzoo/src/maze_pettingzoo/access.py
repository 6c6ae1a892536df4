"""A game past those wrappers of PettingZoo that only check how it is called.

Each of them costs a call a step and, through `__getattr__`, several a look at the game.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo.utils.wrappers import (
    AssertOutOfBoundsWrapper,
    BaseWrapper,
    ClipOutOfBoundsWrapper,
    OrderEnforcingWrapper,
)

from maze_kernel.errors import EnvError

OWNER = "maze-pettingzoo"

_CHECKS = (OrderEnforcingWrapper, AssertOutOfBoundsWrapper, BaseWrapper)
"""These classes, but no subclasses, leave everything as it is."""
_SHOW_ALL = (*_CHECKS, ClipOutOfBoundsWrapper)
"""These, likewise, change nothing but the actions they are given."""


class Access:
    """Where a game is stepped and read once it was reset; `reset`, `render` and `close` stay the game's own.

    What `AssertOutOfBoundsWrapper` asserts is checked here.

    Attributes:
        read: has `agents`, `agent_selection`, `infos`, `last` and `observe`: the game inside of all wrappers, or
            itself where one of them is not known to show the same.
    """

    def __init__(self, game: Any) -> None:
        inner, asserts = game, False
        while type(inner) in _CHECKS:
            asserts |= type(inner) is AssertOutOfBoundsWrapper
            inner = inner.env
        self._stepped = inner
        while type(inner) in _SHOW_ALL:
            inner = inner.env
        self.read: Any = self._stepped if isinstance(inner, BaseWrapper) else inner
        self._limits = {agent: game.action_space(agent) for agent in game.possible_agents} if asserts else {}

    def step(self, action: Any) -> None:
        """Let the agent whose turn it is act; None passes over one that is out.

        Raises:
            EnvError: the game asks for actions of its spaces, and this is none.
        """
        if self._limits and action is not None:
            agent = self.read.agent_selection
            if not _is_in(self._limits[agent], action):
                raise EnvError(
                    f"{agent} was given an action that the game does not have",
                    received=repr(action),
                    expected=str(self._limits[agent]),
                    owner=OWNER,
                    help="the policy, or a wrapper of actions, has to choose from the space",
                )
        self._stepped.step(action)


def _is_in(space: spaces.Space[Any], action: Any) -> bool:
    """`space.contains`, in a third of the time for numbers."""
    if isinstance(space, spaces.Discrete) and isinstance(action, (int, np.integer)):
        return 0 <= int(action) - int(space.start) < int(space.n)
    return space.contains(action)
