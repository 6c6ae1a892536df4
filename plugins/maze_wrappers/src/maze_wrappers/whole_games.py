"""Games that are one step of environment time from beginning to end (`StructuredSpaces.pays_differences`)."""

from __future__ import annotations

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import RequestError


def refuse_whole_games(inner: StructuredSpaces, owner: str) -> None:
    """For wrappers that count steps of environment time, or take some of their own.

    Raises:
        RequestError: a whole game is one step.
    """
    if inner.pays_differences:
        raise RequestError(
            "a whole game is one step of environment time here: within it there are none to count, to take or to skip",
            received='agents that are paid each for itself, e.g. [env] rewards = "own" of "pettingzoo"',
            owner=owner,
            help="leave the wrapper out, and limit games as they themselves can, e.g. kwargs = { max_cycles = 100 };"
            ' or, for partners, set rewards = "team" in [env], where each round is a step',
        )
