"""Options of the vector mode "workers": keys of the `[vector]` table beside `n_envs` and `mode`."""

from __future__ import annotations

import attrs

from maze_kernel.errors import Location, RequestError
from maze_kernel.validators import above

POOLED = "workers"
MODE = f'[vector] mode = "{POOLED}"'


@attrs.frozen(kw_only=True)
class PooledVectorOptions:
    """Options of `[vector] mode = "workers"`."""

    step_timeout_seconds: float = attrs.field(default=60.0, validator=above(0))
    """A reset or step in a worker that takes longer is an error; a deadline of the pool, `[workers] timeout_seconds`, goes before it."""  # noqa: E501


def without_workers(location: Location | None = None) -> RequestError:
    """The refusal of an experiment of this mode that has no pool to collect on."""
    return RequestError(
        f"{MODE} collects on the experiment's worker pool, and it has none",
        received="no [workers] table",
        location=location,
        owner="maze-runtime",
        help='add one, for example [workers] use = "subprocess" (pip install maze-processes)',
    )
