"""Options of the vector modes that come with the kernel: keys of the `[vector]` table beside `n_envs` and `mode`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class SubprocessVectorOptions:
    """Options of `[vector] mode = "subprocess"`."""

    n_processes: int = attrs.field(default=2, validator=attrs.validators.ge(1))
    """Processes; each holds several environments."""
    step_timeout_seconds: float = attrs.field(default=60.0, validator=attrs.validators.gt(0))
    """A reset or step of a subprocess that takes longer is an error."""
    max_restarts: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Restarts of a dead subprocess before the run stops; its environments' episodes are cut."""
