"""What a run was started with: experiment and command line as text, and a row of the HPARAMS tab."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from torch.utils.tensorboard.summary import hparams

from maze_kernel.config.resolved import to_toml
from maze_kernel.contracts.logger import Outcome
from maze_runtime.run.directory import open_run
from maze_runtime.run.metric_text import MetricText
from maze_runtime.run.tracked_run import flatten

BEST_TAG = "run/best_metric"
"""The greatest value (or the least) of the statistic that selects the best model; written when the run ends."""

_PARAMETERS = ("seed", "env", "wrappers", "vector", "model", "trainer")
"""The tables of an experiment that decide what is learnt."""


@attrs.frozen(kw_only=True)
class Beginning:
    """What `run.json` says of a run; nothing where a program logs without a run directory.

    Attributes:
        texts: Markdown by tag.
        parameters: of the experiment by dotted keys.
        metric: the tag, as TensorBoard has it, of the statistic that selects the best model.
    """

    texts: Mapping[str, str]
    parameters: Mapping[str, str | int | float | bool]
    metric: str

    @classmethod
    def of(cls, run_dir: Path, metric: str) -> Beginning:
        """Read a run directory; `metric` as in `LoggerContext`."""
        read = MetricText.parse(metric)
        tag = f"{read.source(evaluates=True)}_{read.tag}"
        if not (run_dir / "run.json").is_file():
            return cls(texts={}, parameters={}, metric=tag)
        run = open_run(run_dir)
        command = shlex.join([Path(part).name if i == 0 else part for i, part in enumerate(run.record.command_line)])
        texts = {"run/experiment": _as_code(_toml(run.resolved)), "run/command_line": _as_code(command)}
        chosen = {key: run.resolved[key] for key in _PARAMETERS if run.resolved.get(key) is not None}
        return cls(texts=texts, parameters=flatten(chosen), metric=tag)

    def write(self, writer: Any) -> None:
        """Texts, and the row of the run among others, which shows the newest value of its metrics."""
        for tag, text in self.texts.items():
            writer.add_text(tag, text, 0)
        columns, row, _ = self._hyperparameters()
        if self.parameters:
            writer.file_writer.add_summary(columns)
            writer.file_writer.add_summary(row)

    def write_end(self, writer: Any, outcome: Outcome) -> None:
        """The value of the best epoch, and that the run has ended."""
        if outcome.best_metric is not None:
            writer.add_scalar(BEST_TAG, outcome.best_metric, outcome.best_epoch)
        if self.parameters:
            writer.file_writer.add_summary(self._hyperparameters()[2])

    def _hyperparameters(self) -> tuple[Any, Any, Any]:
        """Which columns there are, the row of the run, and that it has ended."""
        make: Any = hparams
        columns, row, end = make(dict(self.parameters), {self.metric: 0.0, BEST_TAG: 0.0})
        return columns, row, end


def _toml(experiment: Mapping[str, Any]) -> str:
    try:
        return to_toml(experiment)
    except (TypeError, ValueError):
        return "# built in Python from objects that TOML cannot hold\n"


def _as_code(text: str) -> str:
    """As Markdown that is shown as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())
