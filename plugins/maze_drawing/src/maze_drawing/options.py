"""Options of the `drawing` logger."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class DrawingOptions:
    """The `[[loggers]] use = "drawing"` table."""

    folder: str = attrs.field(default="figures", validator=attrs.validators.matches_re(r"[A-Za-z0-9_-]+"))
    """Folder inside the run directory: letters, digits, - and _."""
