"""Options of the `trackio` logger."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above


@attrs.frozen(kw_only=True)
class TrackioOptions:
    """The `[[loggers]] use = "trackio"` table."""

    project: str = ""
    """trackio's project; empty: the name of the experiment."""
    group: str = ""
    """Group of runs within the project."""
    name: str = ""
    """Name of the run; empty: that of its folder."""
    tags: tuple[str, ...] = ()
    """Words that the configuration of the run holds under `tags`; trackio has none of its own."""
    upload_model: bool = True
    """Whether the best model becomes an artifact at the end."""
    timeout_seconds: float = attrs.field(default=60.0, validator=above(0))
    """Longest time for one call; then the logger is left out of the run."""

    def check_ready(self) -> None:
        """Refuse to be used without the package trackio.

        Raises:
            PluginError: it is not installed.
        """
        from maze_runtime.run.tracking import require_package

        require_package("trackio", "trackio", "trackio")
