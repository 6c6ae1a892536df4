"""Options of the worker pools that come with the kernel."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import above, at_least, one_of, optional

BUILD_SECONDS = 120.0
"""Importing torch in a worker, and building its environments, may take longer than one of its calls is allowed to."""


@attrs.frozen(kw_only=True)
class WorkersOptions:
    """The `[workers]` table of the inline and subprocess pools.

    The inline pool reads `count` only: it cannot interrupt a call, so it has no deadlines and no restarts.
    """

    count: int = attrs.field(default=2, validator=at_least(1))
    """Actors that run at the same time."""
    start_method: Literal["forkserver", "spawn"] = attrs.field(
        default="forkserver", validator=one_of(("forkserver", "spawn"))
    )
    """"forkserver": workers are forked off a small process that imported `preload`; "spawn": new interpreters."""
    preload: tuple[str, ...] = ("gymnasium",)
    """Modules the fork server imports once for all workers; one that is missing is left out."""
    timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0)))
    """Deadline of each call of a worker, if the caller sets none; none: wait as long as it lives."""
    build_timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0)))
    """Deadline of a worker's construction, from the start of its process to an object that answers; none: the deadline of its calls."""  # noqa: E501
    max_restarts: int = attrs.field(default=0, validator=at_least(0))
    """Replacements of one dead or hanging worker before the run stops with the cause."""
    backoff_seconds: float = attrs.field(default=0.5, validator=at_least(0))
    """Wait before the first replacement of a worker; doubled each further time."""
    backoff_cap_seconds: float = attrs.field(default=30.0, validator=at_least(0))
    """Longest wait before a replacement."""
    grace_seconds: float = attrs.field(default=3.0, validator=above(0))
    """Time a worker has to close before it is killed."""
    torch_threads: int = attrs.field(default=1, validator=at_least(1))
    """Threads of numerical libraries in each worker."""
