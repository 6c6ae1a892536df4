"""The `trackio` logger: what trackio's local database is told, in the thread of `Tracking`."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maze_kernel.contracts.logger import LoggerContext, Outcome
from maze_runtime.run.tracked_run import EPOCH_TAG, RunFacts, TrackedEpoch
from maze_runtime.run.tracking import Opened, Tracking
from maze_trackio.options import TrackioOptions


class TrackioLogger(Tracking):
    """One run in the database, which a resumed run continues."""

    def __init__(self, context: LoggerContext, options: TrackioOptions) -> None:
        options.check_ready()
        project = options.project or context.name
        super().__init__(
            context,
            _TrackioRun(project, options),
            place=f"trackio, project {project}",
            timeout_seconds=options.timeout_seconds,
            upload_model=options.upload_model,
        )


class _TrackioRun:
    """A `Tracker`."""

    def __init__(self, project: str, options: TrackioOptions) -> None:
        self._project = project
        self._options = options

    def open(self, run: RunFacts, run_id: str) -> Opened:
        """Ask the database for the last epoch: one that was logged half a second before a kill is not in it."""
        from trackio import Run
        from trackio.sqlite_storage import SQLiteStorage

        SQLiteStorage.validate_project_name(self._project)
        name = self._options.name or run.run_dir.name
        stored = SQLiteStorage.get_metric_values(self._project, name, EPOCH_TAG, run_id=run_id)
        config = {
            **run.parameters,
            **{f"version.{name}": version for name, version in run.versions.items()},
            "overrides": list(run.overrides),
            "tags": list(self._options.tags),
            "folder": str(run.run_dir.resolve()),
        }
        self._run: Any = Run(
            url=None,
            project=self._project,
            client=None,
            name=name,
            run_id=run_id,
            group=self._options.group or None,
            config=config,
        )
        self._pictures = () if stored else run.pictures
        return Opened(epoch=max((int(row["value"]) for row in stored), default=0))

    def send(self, epoch: TrackedEpoch) -> None:
        import trackio
        from PIL import Image

        values: dict[str, Any] = {**epoch.numbers, **self._drawn()}
        values |= {tag: trackio.Histogram(np_histogram=bins) for tag, bins in epoch.histograms.items()}
        values |= {tag: trackio.Markdown(text) for tag, text in epoch.texts.items()}
        values |= {tag: trackio.Image(Image.open(io.BytesIO(png))) for tag, png in epoch.figures.items()}
        self._run.log(values, step=epoch.step)

    def finish(self, outcome: Outcome, model: Mapping[str, Path]) -> None:
        from trackio import Artifact

        if model:
            told = {"outcome": outcome.status, "best_epoch": outcome.best_epoch, "best_metric": outcome.best_metric}
            name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self._run.name}-model")
            artifact = Artifact(name, type="model", metadata={**told, "metric": outcome.metric})
            for path, file in model.items():
                artifact.add_file(file, path)
            self._run.log_artifact(artifact, aliases=["best"])
        with contextlib.redirect_stdout(io.StringIO()):  # it prints; whoever closes the run waits and does not
            self._run.finish()

    def _drawn(self) -> dict[str, Any]:
        """The networks, with the first epoch."""
        import trackio

        pictures, self._pictures = self._pictures, ()
        return {f"networks/{path.stem}": trackio.Html(path.read_text(encoding="utf-8")) for path in pictures}
