"""What a batch of training environments tells the user once, such as that some of its processes have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class HasNotes(Protocol):
    """A batch that has something to say when a run begins."""

    notes: Sequence[str]


def notes_of_idle(n_processes: int, n_envs: int, what: str) -> tuple[str, ...]:
    """A line for the user, or none where every process has an environment.

    Args:
        n_processes: that the experiment asks for.
        n_envs: environments of the batch.
        what: the processes, as the experiment calls them: `[vector] n_processes`.
    """
    n_idle = n_processes - n_envs
    if n_idle <= 0:
        return ()
    environments = "1 environment" if n_envs == 1 else f"{n_envs} environments"
    return (
        f"{environments} for {n_processes} processes ({what}): {n_idle} of them will be idle in training;"
        f" give each one some with [vector] n_envs = {n_processes} or more",
    )
