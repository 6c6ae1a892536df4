"""Conformance of loggers: they take everything a run may send, in a fresh and in a resumed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.run.logging_contract import EpochRecord, LoggerContext, Outcome, Statistic
from maze_kernel.testing.conformance import require
from maze_kernel.training.contract import Progress


def check_logger(factory: Callable[[LoggerContext], Any], run_dir: Path) -> None:
    """Write epochs of numbers, NaN, a histogram and text; close; resume from an earlier epoch; close again.

    Args:
        factory: the logger's target with its options bound.
        run_dir: an empty directory; files must stay inside it.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    beside = set(run_dir.parent.rglob("*"))
    context = LoggerContext(run_dir=run_dir, name="conformance", n_epochs=4, max_env_steps=0)
    _write(factory(context), range(1, 5), Outcome(status="interrupted", reason="Ctrl-C"))
    _write(factory(attrs.evolve(context, resumed_epoch=2)), range(3, 5), Outcome(status="done", reason="4 epochs"))
    factory(context).close(Outcome(status="failed", reason="before the first epoch"))
    outside = [path for path in set(run_dir.parent.rglob("*")) - beside if not path.is_relative_to(run_dir)]
    require(not outside, f"it writes outside the run directory: {', '.join(map(str, outside))}")


def _write(logger: Any, epochs: range, outcome: Outcome) -> None:
    require(callable(getattr(logger, "write", None)), "a logger needs a method write(record)")
    for name, argument in (("progress", Progress(env_steps=1, fraction=0.5)), ("message", "a worker was restarted")):
        if hasattr(logger, name):
            getattr(logger, name)(argument)
    for epoch in epochs:
        statistics = [
            Statistic(tag="train_BaseEnvEvents/reward/mean", value=float(epoch)),
            Statistic(tag="train_ActorCriticEvents/policy_loss", value=float("nan")),
            Statistic(tag="train_Actions/histogram", value=np.arange(5.0)),
            Statistic(tag="train_note", value="text, with a comma"),
        ]
        if epoch % 2 == 0:
            statistics.append(Statistic(tag="eval_BaseEnvEvents/reward/mean", value=2.0 * epoch))
        logger.write(EpochRecord(epoch=epoch, env_steps=100 * epoch, wall_seconds=float(epoch), statistics=statistics))
    if hasattr(logger, "close"):
        logger.close(outcome)
