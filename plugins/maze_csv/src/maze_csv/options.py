"""Options of the `csv` logger."""

from __future__ import annotations

import attrs

from maze_kernel.validators import matches


@attrs.frozen(kw_only=True)
class CsvOptions:
    """The `[[loggers]] use = "csv"` table."""

    folder: str = attrs.field(default="statistics", validator=matches(r"[A-Za-z0-9_-]+"))
    """Folder inside the run directory: letters, digits, - and _."""
