"""Options of the `wandb` logger."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import above, one_of


@attrs.frozen(kw_only=True)
class WandbOptions:
    """The `[[loggers]] use = "wandb"` table."""

    project: str = ""
    """W&B's project; empty: the name of the experiment."""
    entity: str = ""
    """User or team that owns the project; empty: the default one of the key."""
    name: str = ""
    """Name of the run; empty: that of its folder."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""
    mode: Literal["auto", "online", "offline"] = attrs.field(
        default="auto", validator=one_of(("auto", "online", "offline"))
    )
    """"online", "offline" or "auto", which is online where there is a key."""
    upload_model: bool = True
    """Whether the best model becomes an artifact at the end."""
    timeout_seconds: float = attrs.field(default=60.0, validator=above(0))
    """Longest time for one call, and for the upload at the end; then the logger is left out of the run."""

    def check_ready(self) -> None:
        """Refuse to be used without the package wandb.

        Raises:
            PluginError: it is not installed.
        """
        from maze_runtime.run.tracking import require_package

        require_package("wandb", "wandb", "wandb")
