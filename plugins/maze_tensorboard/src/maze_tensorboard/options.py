"""Options of the `tensorboard` logger."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import at_least, matches, one_of


@attrs.frozen(kw_only=True)
class TensorBoardOptions:
    """The `[[loggers]] use = "tensorboard"` table."""

    folder: str = attrs.field(default="tensorboard", validator=matches(r"[A-Za-z0-9_-]+"))
    """Folder inside the run directory: letters, digits, - and _."""
    x_axis: Literal["epoch", "env_steps"] = attrs.field(default="env_steps", validator=one_of(("epoch", "env_steps")))
    """What the horizontal axis counts: "env_steps" or "epoch". A resumed run keeps the one it has."""
    flush_seconds: int = attrs.field(default=30, validator=at_least(1))
    """Longest time statistics stay in memory before they are written."""
