"""Conversions between a simulation's own objects and the arrays that networks see, one a policy key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gymnasium import spaces

from maze_kernel.contracts.env import Action, Observation
from maze_kernel.errors import EnvError

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


class ObservationConversion(ABC, Generic[StateT]):
    """From a MazeState to the observation of one policy key."""

    @abstractmethod
    def space(self) -> spaces.Dict:
        """The observation space; asked once, when the environment is built."""

    @abstractmethod
    def maze_to_space(self, maze_state: StateT) -> Observation:
        """The observation, arrays in the space's dtypes. The state is read, never changed."""

    def space_to_maze(self, observation: Observation) -> StateT:
        """The state an observation was made from, where it holds all of it; optional."""
        raise _one_way(self, "an observation to a MazeState")


class ActionConversion(ABC, Generic[StateT, ActionT]):
    """From the action of one policy key to a MazeAction, and back where recordings are to be imitated."""

    @abstractmethod
    def space(self) -> spaces.Dict:
        """The action space; asked once, when the environment is built."""

    @abstractmethod
    def space_to_maze(self, action: Action, maze_state: StateT) -> ActionT:
        """The MazeAction that an action means in a state."""

    def maze_to_space(self, maze_action: ActionT, maze_state: StateT) -> Action:
        """The action that means this MazeAction; optional, needed to imitate recorded MazeActions."""
        raise _one_way(self, "a MazeAction to an action")

    def noop_action(self) -> Action:
        """The action that changes nothing; optional, needed by wrappers that let time pass."""
        raise EnvError(
            f"{type(self).__name__} has no action that changes nothing",
            owner=type(self).__module__,
            help="write noop_action, or leave out the wrapper that asks for it",
        )


def _one_way(conversion: object, direction: str) -> EnvError:
    name = type(conversion).__name__
    method = "space_to_maze" if isinstance(conversion, ObservationConversion) else "maze_to_space"
    return EnvError(
        f"{name} cannot convert {direction}",
        owner=type(conversion).__module__,
        help=f"write {name}.{method}",
    )
