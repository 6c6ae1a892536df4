"""Errors of components that were raised while they were used, shown where the experiment selects these."""

from __future__ import annotations

from maze_kernel.errors import MazeError
from maze_runtime.env.blame import class_of
from maze_runtime.run.assembly import Assembly


def place_error(error: MazeError, assembly: Assembly) -> None:
    """Give the error of a wrapper or a callback its place, where it has none."""
    wrappers = zip(assembly.transforms, assembly.transform_selections, strict=True)
    tables = {class_of(transform): table for transform, table in wrappers}
    tables |= {f"callback {table.use}": table for table in assembly.experiment.callbacks}
    if error.owner in tables:
        error.location = error.location or tables[error.owner].location
