"""The board: a small actor on the caller's node, where things lie that a busy actor or caller is not asked for.

The caller pins up weights, and actors look for newer ones at the start of a call. An actor pins up the stacks of its
threads when it is past its deadline, and the caller reads them before it ends it.
"""

from __future__ import annotations

from typing import Any

Pinned = tuple[Any, int]
"""Weights as they travel, an array or a list with one reference to it; and their version."""


class Board:
    """Weights by group, stacks by actor."""

    def __init__(self) -> None:
        self._weights: dict[str, Pinned] = {}
        self._stacks: dict[str, str] = {}

    def __repr__(self) -> str:
        return "board"

    def ready(self) -> None:
        """Answers as soon as there is a board."""

    def publish(self, group: str, payload: Any, version: int) -> None:
        """Pin up the newest weights of a group."""
        self._weights[group] = payload, version

    def newest(self, group: str, known: int) -> Pinned | None:
        """The newest weights; None where version `known` is, or nothing is pinned up."""
        pinned = self._weights.get(group)
        return pinned if pinned is not None and pinned[1] > known else None

    def leave_stacks(self, actor: str, text: str) -> None:
        """Pin up what the threads of an actor's process are doing."""
        self._stacks[actor] = text

    def take_stacks(self, actor: str) -> str:
        """What was left, empty where nothing was; it is taken off the board."""
        return self._stacks.pop(actor, "")

    def forget(self, group: str) -> None:
        """Take everything of a closed group off the board."""
        self._weights.pop(group, None)
        for key in [key for key in self._stacks if key.startswith(f"{group}/")]:
            del self._stacks[key]
