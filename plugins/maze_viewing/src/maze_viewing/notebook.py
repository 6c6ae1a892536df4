"""The viewer in Jupyter: `TrajectoryViewer(…)` as the last line of a cell; needs no widgets."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from maze_kernel.cli.experiments import read_experiment
from maze_viewing.recorded import recorded
from maze_viewing.viewer import ViewOptions, view_page


class TrajectoryViewer:
    """Shows recorded episodes in a notebook, with the same page that `maze view` writes.

    >>> TrajectoryViewer("runs/demo", n_episodes=5)  # doctest: +SKIP

    Args:
        source: a recording, a run directory, or the file of one episode. A run without recordings plays some first.
        experiment: file of the experiment, where its environment was given by an import path.
        height: of the frame in the notebook, in pixels.
        options: see `ViewOptions`.
    """

    def __init__(
        self, source: Path | str, *, height: int = 760, experiment: Path | str | None = None, **options: Any
    ) -> None:
        self._height = height
        shown = ViewOptions(**options)
        loaded = None if experiment is None else read_experiment(Path(experiment))
        self.page = view_page(recorded(Path(source), shown.n_episodes, loaded), shown, experiment=loaded)

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
