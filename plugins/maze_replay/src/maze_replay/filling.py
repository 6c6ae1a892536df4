"""The first transitions of a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.errors import RequestError
from maze_replay.replay import ReplayBuffer

PATIENCE = 100
"""Environment steps a wanted transition after which the search for a silent policy key's first one is given up."""


def fill(
    replay: Mapping[PolicyKey, ReplayBuffer],
    wanted: int,
    collect: Callable[[], int],
    report: Callable[[int], None],
    *,
    count: Callable[[], int] | None = None,
    silent: Callable[[], Sequence[PolicyKey]] | None = None,
) -> None:
    """Collect until there are so many transitions; half of what fits is enough, and every policy key needs one.

    Args:
        replay: policy key to its buffer.
        wanted: transitions of all policy keys together.
        collect: takes some steps; returns how many environment steps that were.
        report: told how many they are so far, now and then.
        count: transitions that can be drawn, where they lie in other places, too; None: those in the buffers.
        silent: policy keys without a transition, where several share a buffer; None: those whose buffer is empty.

    Raises:
        RequestError: a policy key does not come to a transition.
    """
    n_steps = 0
    count = count or partial(n_transitions, replay)
    silent = silent or partial(_without_transitions, replay)
    wanted = min(wanted, sum(buffer.n_rings * buffer.n_rows for buffer in replay.values()) // 2)
    while count() < wanted or silent():
        before = n_steps
        n_steps += collect()
        if n_steps // 256 > before // 256:
            report(n_steps)
        if n_steps > PATIENCE * (wanted + 1):
            raise _never_decided(silent(), n_steps)


def n_transitions(replay: Mapping[PolicyKey, ReplayBuffer]) -> int:
    """Transitions that can be drawn, of all policy keys."""
    return sum(buffer.n_transitions for buffer in replay.values())


def _without_transitions(replay: Mapping[PolicyKey, ReplayBuffer]) -> list[PolicyKey]:
    return [key for key, buffer in replay.items() if not buffer.n_transitions]


def _never_decided(silent: Sequence[PolicyKey], n_steps: int) -> RequestError:
    return RequestError(
        f"policy key {', '.join(map(repr, silent))} made no two decisions one after the other"
        if silent
        else "too few transitions were collected",
        received=f"{n_steps} environment steps of the first policy",
        expected="transitions of every policy key before the first update",
        owner="maze-replay",
        help="try another initial_sampling_policy where there is one, a smaller initial_buffer_size or a larger "
        "replay_buffer_size",
    )
