"""What a logger plugin receives: the statistics of each epoch, progress in between, and the outcome.

All methods but `write` are optional. A logger that raises, or calls `sys.exit`, is warned about once and left out;
training goes on. One that raises in `networks` misses only those.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from maze_kernel.contracts.networks import NetworkGraph


@attrs.frozen(kw_only=True)
class Progress:
    """A sign of life within an epoch, for the live view."""

    env_steps: int
    """Environment steps of the whole run so far."""
    fraction: float
    """Of the current epoch, 0 to 1."""
    phase: str = "train"
    """"estimate", "compile", "rollout", "update", "train", "evaluate"."""
    reward: float | None = None
    """Mean of the episodes that ended in the epoch so far, as the environments pay; None: not known."""


@attrs.frozen(kw_only=True)
class EpochRecord:
    """All statistics of one epoch: numbers, arrays (shown as histograms; read-only), texts and matplotlib figures."""

    epoch: int
    """From 1."""
    env_steps: int
    wall_seconds: float
    train: Mapping[str, Any]
    """Of the epoch's training, by tags such as "BaseEnvEvents/reward/mean" and "ActorCriticEvents/approx_kl"."""
    evaluation: Mapping[str, Any] = attrs.field(factory=dict)
    """Of the evaluation that followed; empty where none did."""
    is_best: bool = False
    metric: float | None = None
    """Value of the statistic that selects; None in an epoch without it."""
    best_metric: float | None = None
    """That of the best epoch so far."""


@attrs.frozen(kw_only=True)
class Outcome:
    """How the run ended: "done", "stopped early", "interrupted" or "failed"."""

    status: str
    reason: str
    best_epoch: int | None = None
    best_metric: float | None = None
    metric: str | None = None
    """The statistic that `best_metric` is a value of."""


@attrs.frozen(kw_only=True)
class LoggerContext:
    """What a logger is built from."""

    run_dir: Path
    name: str
    n_epochs: int
    """0: until stopped."""
    max_env_steps: int
    """0: no budget."""
    resumed_epoch: int = 0
    """Last epoch kept from before a resume; a logger drops anything it wrote for later epochs. 0: a fresh run."""
    metric: str = "BaseEnvEvents/reward/mean"
    """What the best model is selected by: the tag of an evaluation's statistic, or `train_` and a tag of training."""
    verbosity: int = 0
    """−1: nothing on the screen; 0: progress; 1: tables of statistics as well."""


class Logger(Protocol):
    """Writes statistics somewhere. One with `is_on_stderr = True` is given no warnings: Python shows them there."""

    def write(self, record: EpochRecord) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def networks(self, graphs: Mapping[str, NetworkGraph]) -> None:
        """What is going to be trained, by names that may be file names; once, before a fresh run trains."""
        ...

    def message(self, text: str) -> None:
        """A line the user should see: a checkpoint that was skipped, a worker that was restarted."""
        ...

    def close(self, outcome: Outcome) -> None: ...
