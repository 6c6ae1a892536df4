"""The `wandb` logger: what Weights & Biases is told, in the thread of `Tracking`.

Without a key, or offline, each process writes a file of its own below `wandb/` in the run directory; `wandb sync` puts
those of a resumed run together.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maze_kernel.contracts.logger import LoggerContext, Outcome
from maze_runtime.run.tracked_run import EPOCH_TAG, RunFacts, TrackedEpoch
from maze_runtime.run.tracking import Opened, Tracking
from maze_wandb.options import WandbOptions

AXIS = "env_steps"
"""What the horizontal axis of every statistic counts, unless the trainer takes no environment steps."""
_RETRY_SECONDS = 0.5
_EXIT_CODES = {"done": 0, "stopped early": 0}


class WandbLogger(Tracking):
    """One run, which a resumed run continues."""

    def __init__(self, context: LoggerContext, options: WandbOptions) -> None:
        options.check_ready()
        project = options.project or context.name
        owned = f"{options.entity}/{project}" if options.entity else project
        super().__init__(
            context,
            _WandbRun(project, options),
            place=f"W&B ({options.mode}), project {owned}",
            timeout_seconds=options.timeout_seconds,
            upload_model=options.upload_model,
        )


class _WandbRun:
    """A `Tracker`."""

    def __init__(self, project: str, options: WandbOptions) -> None:
        self._project = project
        self._options = options
        self._has_axis = False

    def open(self, run: RunFacts, run_id: str) -> Opened:

        folder = run.run_dir.resolve()
        online = self._is_online()
        if not online:  # what is synced later must not fall together with what an online part of the run has sent
            run_id = f"{run_id}-offline"
        last = 0 if online else last_epoch_offline(folder, run_id)
        self._run: Any = self._begin(
            project=self._project,
            entity=self._options.entity or None,
            name=self._options.name or folder.name,
            id=run_id,
            tags=self._options.tags,
            dir=folder,
            mode="online" if online else "offline",
            resume="allow" if online else None,
            reinit="create_new",
            config={
                **run.experiment,
                "maze": {"overrides": list(run.overrides), "versions": run.versions, "folder": str(folder)},
            },
            settings=self._settings(),
        )
        if online and self._run.resumed:
            last = int(self._run.summary.get(EPOCH_TAG) or 0)
        self._pictures = () if last else run.pictures
        return Opened(epoch=last, url=self._run.url or "" if online else "")

    def send(self, epoch: TrackedEpoch) -> None:
        """One row of the history; its step is W&B's own counter, which never goes back."""
        import wandb
        from PIL import Image

        if not self._has_axis:
            axis = AXIS if epoch.env_steps else EPOCH_TAG
            self._run.define_metric(axis)
            self._run.define_metric("*", step_metric=axis)
            self._has_axis = True
        values: dict[str, Any] = {**epoch.numbers, **epoch.texts, AXIS: epoch.env_steps}
        values |= {tag: wandb.Histogram(np_histogram=bins) for tag, bins in epoch.histograms.items()}
        values |= {tag: wandb.Image(Image.open(io.BytesIO(png))) for tag, png in epoch.figures.items()}
        pictures, self._pictures = self._pictures, ()
        values |= {f"networks/{path.stem}": wandb.Html(path.read_text(encoding="utf-8")) for path in pictures}
        self._run.log(values)

    def finish(self, outcome: Outcome, model: Mapping[str, Path]) -> None:
        import wandb

        told: dict[str, str | float | None] = {
            "outcome": f"{outcome.status}: {outcome.reason}",
            "best_epoch": outcome.best_epoch,
            "best_metric": outcome.best_metric,
            "metric": outcome.metric,
        }
        self._run.summary.update({f"maze/{name}": value for name, value in told.items() if value is not None})
        if model:
            name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self._run.id}-model")
            artifact = wandb.Artifact(name, type="model", metadata=told)
            for path, file in model.items():
                artifact.add_file(str(file), path)
            self._run.log_artifact(artifact, aliases=["best"])
        self._run.finish(exit_code=_EXIT_CODES.get(outcome.status, 1))

    def _begin(self, **arguments: Any) -> Any:
        """`wandb.init`; W&B's own process outlives a killed one for a moment and keeps the run until then."""
        import wandb

        until = time.monotonic() + 0.8 * self._options.timeout_seconds
        while True:
            try:
                return wandb.init(**arguments)
            except Exception as error:
                if "is in use" not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(_RETRY_SECONDS)

    def _is_online(self) -> bool:
        """Whether there is a key, where it is not said; nobody is asked for one."""
        import wandb

        mode = self._options.mode if self._options.mode != "auto" else os.environ.get("WANDB_MODE", "auto")
        if mode in ("online", "offline"):
            return mode == "online"
        return bool(wandb.login(prompt=False, verify=False))

    def _settings(self) -> Any:
        """Nothing on the screen, and no wait longer than agreed, at the exit of the process neither."""
        import wandb

        seconds = self._options.timeout_seconds
        return wandb.Settings(
            silent=True,
            console="off",
            init_timeout=0.8 * seconds,
            finish_timeout=0.8 * seconds,
            finish_timeout_raises=True,
        )


def last_epoch_offline(run_dir: Path, run_id: str) -> int:
    """The last epoch in the files that processes of this run left; W&B's own reader reads them.

    What a killed process had not yet written is in none of them.
    """
    folders = sorted((run_dir / "wandb").glob(f"offline-run-*-{run_id}"))
    return max((epoch for folder in folders for epoch in _epochs(folder / f"run-{run_id}.wandb")), default=0)


def _epochs(file: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    read = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    for line in read.stdout.splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # half a line, or a word about half a record at the end of the file
            continue
        if record.get("type") == "history" and EPOCH_TAG in record["history"]["item"]:
            yield int(record["history"]["item"][EPOCH_TAG])
