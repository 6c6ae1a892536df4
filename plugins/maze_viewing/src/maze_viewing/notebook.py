"""The viewer in Jupyter: `TrajectoryViewer(…)` as the last line of a cell; needs no widgets."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from maze_viewing.viewer import ViewOptions, view_page


class TrajectoryViewer:
    """Shows recorded episodes in a notebook, with the same page that `maze view` writes.

    >>> TrajectoryViewer("runs/demo", n_episodes=5)  # doctest: +SKIP

    Args:
        source: a recording, a run directory, or the file of one episode.
        height: of the frame in the notebook, in pixels.
        options: see `ViewOptions`.
    """

    def __init__(self, source: Path | str, *, height: int = 760, **options: Any) -> None:
        self._height = height
        self.page = view_page(source, ViewOptions(**options))

    def _repr_html_(self) -> str:
        page = html.escape(self.page, quote=True)
        return (
            f'<iframe srcdoc="{page}" style="width: 100%; height: {self._height}px; border: 0" '
            'title="Recorded episodes"></iframe>'
        )

    def save(self, file: Path | str) -> Path:
        """Write the page to a file of its own."""
        file = Path(file)
        file.write_text(self.page, encoding="utf-8")
        return file
