"""Options of the policy component "replay"."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """What is replayed."""

    path: str
    """A recording, a run directory with recordings, or the file of one episode."""
