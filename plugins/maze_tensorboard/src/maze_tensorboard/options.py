"""Options of the `tensorboard` logger."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class TensorBoardOptions:
    """The `[[loggers]] use = "tensorboard"` table."""

    folder: str = attrs.field(default="tensorboard", validator=attrs.validators.matches_re(r"[A-Za-z0-9_-]+"))
    """Folder inside the run directory: letters, digits, - and _."""
    x_axis: Literal["epoch", "env_steps"] = attrs.field(
        default="epoch", validator=attrs.validators.in_(("epoch", "env_steps"))
    )
    """What the horizontal axis counts."""
    flush_seconds: int = attrs.field(default=30, validator=attrs.validators.ge(1))
    """Longest time statistics stay in memory before they are written."""
