"""The `mlflow` logger: what an MLflow server is told, in the thread of `Tracking`.

Metrics have environment steps as their step, or epochs where the trainer takes none. MLflow has neither histograms nor
texts among its metrics: those of an epoch are a JSON artifact.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from maze_kernel.contracts.logger import LoggerContext, Outcome
from maze_mlflow.options import MlflowOptions
from maze_runtime.run.tracked_run import EPOCH_TAG, RunFacts, TrackedEpoch
from maze_runtime.run.tracking import Opened, Tracking

RUN_TAG = "maze.run"
"""Tag of the run's id in `tracker.json`, by which a resumed run finds it."""
N_RETRIES = 2
"""Of a request, where MLFLOW_HTTP_REQUEST_MAX_RETRIES does not say otherwise; MLflow's own 7 take minutes."""
_LONGEST_VALUE = 6000
_LONGEST_KEY = 250
_LONGEST_TAG = 5000
_BATCH = {"metrics": 1000, "params": 100, "tags": 100}
"""What one request may hold."""
_STATUS = {"done": "FINISHED", "stopped early": "FINISHED", "interrupted": "KILLED"}


class MlflowLogger(Tracking):
    """One run on the server, which a resumed run continues."""

    def __init__(self, context: LoggerContext, options: MlflowOptions) -> None:
        options.check_ready()
        uri = options.server
        experiment = options.experiment or context.name
        super().__init__(
            context,
            _MlflowRun(uri, experiment, options),
            place=f"MLflow at {_without_password(uri)}, experiment {experiment}",
            timeout_seconds=options.timeout_seconds,
            upload_model=options.upload_model,
        )


class _MlflowRun:
    """A `Tracker`."""

    def __init__(self, uri: str, experiment: str, options: MlflowOptions) -> None:
        self._uri = uri
        self._experiment = experiment
        self._options = options

    def open(self, run: RunFacts, run_id: str) -> Opened:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", str(N_RETRIES))
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        from mlflow import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=self._uri)
        experiment_id = self._experiment_id()
        known = self._client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1)
        found = known[0] if known else self._create(experiment_id, run, run_id)
        self._run_id = found.info.run_id
        self._client.update_run(self._run_id, status="RUNNING")
        self._describe(run, found.data.params)
        epoch = int(found.data.metrics.get(EPOCH_TAG, 0))
        url = f"{_without_password(self._uri).rstrip('/')}/#/experiments/{experiment_id}/runs/{self._run_id}"
        return Opened(epoch=epoch, url=url)

    def send(self, epoch: TrackedEpoch) -> None:
        """Artifacts first, the epoch's number last: an epoch that has it is whole."""
        from mlflow.entities import Metric

        details = {
            "epoch": epoch.epoch,
            "env_steps": epoch.env_steps,
            "texts": epoch.texts,
            "histograms": {
                tag: {"counts": counts.tolist(), "edges": edges.tolist()}
                for tag, (counts, edges) in epoch.histograms.items()
            },
        }
        if epoch.texts or epoch.histograms:
            self._client.log_dict(self._run_id, details, f"epochs/{epoch.epoch:06d}.json")
        for tag, picture in epoch.figures.items():
            self._log_file(f"figures/{allowed(tag)}/{epoch.epoch:06d}.png", picture)
        now = int(time.time() * 1000)
        tags = sorted(epoch.numbers, key=lambda tag: tag == EPOCH_TAG)
        self._log("metrics", [Metric(allowed(tag), epoch.numbers[tag], now, epoch.step) for tag in tags])

    def finish(self, outcome: Outcome, model: Mapping[str, Path]) -> None:
        for name, file in model.items():
            self._client.log_artifact(self._run_id, str(file), str(Path("model", name).parent))
        told: dict[str, str | float | None] = {
            "outcome": f"{outcome.status}: {outcome.reason}",
            "best_epoch": outcome.best_epoch,
            "best_metric": outcome.best_metric,
            "metric": outcome.metric,
        }
        self._set_tags({f"maze.{name}": value for name, value in told.items() if value is not None})
        self._client.set_terminated(self._run_id, _STATUS.get(outcome.status, "FAILED"))

    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(self._experiment)
        if found is None:
            try:
                return str(self._client.create_experiment(self._experiment))
            except MlflowException:  # another run made it at the same time
                found = self._client.get_experiment_by_name(self._experiment)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _create(self, experiment_id: str, run: RunFacts, run_id: str) -> Any:
        name = self._options.name or run.run_dir.name
        return self._client.create_run(experiment_id, run_name=name, tags={RUN_TAG: run_id})

    def _describe(self, run: RunFacts, known: Mapping[str, str]) -> None:
        """Parameters cannot be changed: what a resume changed stands in the artifact `run.json` alone."""
        from mlflow.entities import Param

        given = {allowed(key)[:_LONGEST_KEY]: str(value)[:_LONGEST_VALUE] for key, value in run.parameters.items()}
        self._log("params", [Param(key, value) for key, value in given.items() if key not in known])
        own = (text.partition("=") for text in self._options.tags)
        self._set_tags({key: value for key, _, value in own})
        self._set_tags({"maze.overrides": " ".join(run.overrides), "maze.folder": str(run.run_dir.resolve())})
        self._set_tags({f"version.{name}": version for name, version in run.versions.items()})
        for file in (run.run_dir / "run.json", run.run_dir / "experiment.toml"):
            if file.is_file():
                self._client.log_artifact(self._run_id, str(file))
        for picture in run.pictures:
            self._client.log_artifact(self._run_id, str(picture), "networks")

    def _set_tags(self, tags: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        made = [RunTag(allowed(key)[:_LONGEST_KEY], str(value)[:_LONGEST_TAG]) for key, value in tags.items() if key]
        self._log("tags", made)

    def _log(self, kind: str, items: Sequence[Any]) -> None:
        for start in range(0, len(items), _BATCH[kind]):
            self._client.log_batch(self._run_id, **{kind: items[start : start + _BATCH[kind]]})

    def _log_file(self, name: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, Path(name).name)
            file.write_bytes(content)
            self._client.log_artifact(self._run_id, str(file), str(Path(name).parent))


def allowed(name: str) -> str:
    """A name as MLflow takes it: letters, digits and `_-. :/`, and no empty, `.` or `..` part.

    >>> allowed("train_Actions[0]//mean")
    'train_Actions_0_/_/mean'
    """
    parts = (re.sub(r"[^\w\-. :]", "_", part) for part in name.split("/"))
    return "/".join("_" if part.strip(".") == "" else part for part in parts)


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
