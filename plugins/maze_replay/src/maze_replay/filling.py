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
    """Collect until there are so many transitions, and one of every policy key.

    Half of the rows that can hold one are enough: no more fit where every episode is cut after its first step.

    Args:
        replay: policy key to its buffer.
        wanted: transitions of all policy keys together.
        collect: takes some steps; returns how many environment steps that were.
        report: told how many they are so far, now and then.
        count: transitions that can be drawn, where they lie in other places, too; None: those in the buffers.
        silent: policy keys without a transition, where several share a buffer; None: those whose buffer is empty.

    Raises:
        RequestError: a policy key does not come to a transition, or all together do not come to so many.
    """
    n_steps = 0
    count = count or partial(n_transitions, replay)
    silent = silent or partial(_without_transitions, replay)
    patience = PATIENCE * (min(wanted, _fit_always(replay)) + 1)
    while count() < min(wanted, _fit_always(replay)) or silent():
        before = n_steps
        n_steps += collect()
        if n_steps // 256 > before // 256:
            report(n_steps)
        if n_steps > patience:
            raise _never_decided(silent(), n_steps) if silent() else _too_few(count(), wanted, n_steps)


def n_transitions(replay: Mapping[PolicyKey, ReplayBuffer]) -> int:
    """Transitions that can be drawn, of all policy keys."""
    return sum(buffer.n_transitions for buffer in replay.values())


def _without_transitions(replay: Mapping[PolicyKey, ReplayBuffer]) -> list[PolicyKey]:
    return [key for key, buffer in replay.items() if not buffer.n_transitions]


def _fit_always(replay: Mapping[PolicyKey, ReplayBuffer]) -> int:
    """Transitions that there is room for wherever episodes end; less once rings were divided."""
    return sum(buffer.n_rings * ((buffer.n_rows - buffer.n_spare_rows) // 2) for buffer in replay.values())


def _never_decided(silent: Sequence[PolicyKey], n_steps: int) -> RequestError:
    return RequestError(
        f"policy key {', '.join(map(repr, silent))} made no two decisions one after the other",
        received=f"{n_steps} environment steps of the first policy",
        expected="transitions of every policy key before the first update",
        owner="maze-replay",
        help="try another initial_sampling_policy where there is one, or a larger replay_buffer_size",
    )


def _too_few(n_transitions: int, wanted: int, n_steps: int) -> RequestError:
    return RequestError(
        "too few transitions were collected before the first update",
        received=f"{n_transitions} after {n_steps} environment steps of the first policy",
        expected=f"{wanted}, or half of what the replay buffer holds",
        owner="maze-replay",
        help="set a smaller initial_buffer_size, or a larger replay_buffer_size",
    )
