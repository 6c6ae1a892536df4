"""What groups of actors do alike in every pool: wait for calls and for the end, and close with the pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from maze_kernel.contracts.workers import ActorGroup
from maze_kernel.errors import MazeError

Turn = Callable[[float | None], None]
"""Waits for the next event of any actor, no longer than so many seconds, and deals with it."""


class PendingCall(Protocol):
    """A call whose answer a `Turn` may bring."""

    finished: bool
    error: MazeError | None


def turn_until_one_is_done(turn: Turn, calls: Sequence[PendingCall], timeout_seconds: float | None) -> None:
    """Work until one of `calls` is done or the time is up."""
    limit = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while calls and not any(call.finished for call in calls):
        remaining = None if limit is None else limit - time.monotonic()
        turn(remaining)
        if remaining is not None and remaining <= 0:
            return


def turn_until_closed(
    turn: Turn, kill: Callable[[], None], *, idle: Sequence[PendingCall], busy: Sequence[PendingCall], seconds: float
) -> None:
    """Wait for actors that were told to close, then kill what is left of them.

    Args:
        idle: the calls of `close` that have deadlines of their own.
        busy: those of actors at work when nobody wants their answers any more: they may be killed without a word.
        seconds: how long to wait for the latter.

    Raises:
        MazeError: of an idle actor.
    """
    deadline = time.monotonic() + seconds
    try:
        while not all(call.finished for call in idle):
            turn(None)
        while not all(call.finished for call in busy) and time.monotonic() < deadline:
            turn(deadline - time.monotonic())
    finally:
        kill()
    for call in idle:
        if call.error is not None:
            raise call.error


def close_groups(groups: Sequence[ActorGroup]) -> MazeError | None:
    """Close every group, also when one of them fails; returns the first error."""
    first = None
    for group in groups:
        try:
            group.close()
        except MazeError as error:
            first = first or error
    return first
