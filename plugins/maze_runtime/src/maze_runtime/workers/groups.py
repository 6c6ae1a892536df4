"""What pools do alike with their groups: close them."""

from __future__ import annotations

from collections.abc import Sequence

from maze_kernel.contracts.workers import ActorGroup
from maze_kernel.errors import MazeError


def close_groups(groups: Sequence[ActorGroup]) -> MazeError | None:
    """Close every group, also when one of them fails; returns the first error."""
    first = None
    for group in groups:
        try:
            group.close()
        except MazeError as error:
            first = first or error
    return first
