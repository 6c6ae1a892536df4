"""Options of the vector mode "workers": keys of the `[vector]` table beside `n_envs` and `mode`."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above


@attrs.frozen(kw_only=True)
class PooledVectorOptions:
    """Options of `[vector] mode = "workers"`."""

    step_timeout_seconds: float = attrs.field(default=60.0, validator=above(0))
    """A reset or step in a worker that takes longer is an error; a deadline of the pool, `[workers] timeout_seconds`, goes before it."""  # noqa: E501
