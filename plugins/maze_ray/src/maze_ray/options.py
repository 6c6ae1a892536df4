"""Options of the worker pool `ray`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import attrs

from maze_kernel.errors import PluginError
from maze_kernel.validators import above, at_least, one_of, optional


@attrs.frozen(kw_only=True)
class RayOptions:
    """The `[workers]` table of the pool `ray`."""

    count: int = attrs.field(default=2, validator=at_least(1))
    """Actors that run at the same time."""
    address: str = ""
    """The cluster: empty for one of this process on this machine, "auto" for the one this machine belongs to, else its `host:port` or `ray://host:port`."""  # noqa: E501
    cpus_per_worker: float = attrs.field(default=1.0, validator=at_least(0))
    """Processors that an actor reserves; evaluation and other light work reserves none."""
    gpus_per_worker: float = attrs.field(default=0.0, validator=at_least(0))
    """GPUs, or parts of one, that an actor reserves and sees."""
    placement: Literal["spread", "pack"] = attrs.field(default="spread", validator=one_of(("spread", "pack")))
    """"spread": one machine after the other; "pack": fill a machine before the next."""
    working_dir: str = ""
    """A folder that is sent to every machine and is the working directory of the actors there; empty: none."""
    shared_files: bool = False
    """Whether all machines see the same files under the same paths, as on a network file system; else videos and recordings by workers are refused. On a cluster of this process they always do."""  # noqa: E501
    timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0)))
    """Deadline of each call, if the caller sets none; none: wait as long as the actor lives."""
    build_timeout_seconds: float | None = attrs.field(default=300.0, validator=optional(above(0)))
    """Deadline of the construction of an actor, from the request on: a place on a machine, a process, its imports."""
    max_restarts: int = attrs.field(default=0, validator=at_least(0))
    """Replacements of one dead, lost or hanging worker before the run stops with the cause."""
    backoff_seconds: float = attrs.field(default=0.5, validator=at_least(0))
    """Wait before the first replacement of a worker; doubled each further time."""
    backoff_cap_seconds: float = attrs.field(default=30.0, validator=at_least(0))
    """Longest wait before a replacement."""
    grace_seconds: float = attrs.field(default=3.0, validator=above(0))
    """Time a worker has to close before it is killed."""
    torch_threads: int = attrs.field(default=1, validator=at_least(1))
    """Threads of numerical libraries in each worker."""

    def check_ready(self) -> None:
        """Refuse to be used without Ray, which is not imported here.

        Raises:
            PluginError: it is not installed.
        """
        if find_spec("ray") is None:
            raise PluginError(
                "the worker pool 'ray' needs Ray, which is not installed",
                help="pip install ray, or choose another pool in [workers]",
            )
