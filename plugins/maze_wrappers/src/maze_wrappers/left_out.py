"""Steps behind a reset that are no part of the episode: event statistics and KPIs leave them out, too."""

from __future__ import annotations

from maze_kernel.contracts.env import StructuredEnv
from maze_runtime.events.reporters import reporter_of


def leave_out(env: StructuredEnv) -> None:
    """Let an environment forget what its statistics have of the episode since the reset, be it over or not."""
    source = reporter_of(env)
    if source is not None:
        source.discard_episode()
