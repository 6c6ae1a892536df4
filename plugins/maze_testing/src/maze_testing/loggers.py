"""Conformance of loggers: they take everything a run may send, in a fresh and in a resumed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome, Progress
from maze_kernel.contracts.networks import BlockNode, NetworkGraph
from maze_testing.conformance import require

_GRAPH = NetworkGraph(
    role="policy",
    policy_key="0",
    blocks=(BlockNode(name="dense", kind="Dense", in_keys=("x",), out_keys=("y",), n_parameters=10),),
    shapes={"x": (4,), "y": (2,)},
    inputs=("x",),
    outputs={"action": "y"},
)


def check_logger(factory: Callable[[LoggerContext], Any], run_dir: Path) -> None:
    """Show a network, write epochs of numbers, NaN, a histogram and text; close; resume from an earlier epoch; close.

    Args:
        factory: the logger's target with its options bound.
        run_dir: an empty directory; files must stay inside it.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    beside = set(run_dir.parent.rglob("*"))
    context = LoggerContext(run_dir=run_dir, name="conformance", n_epochs=4, max_env_steps=0)
    fresh = factory(context)
    if hasattr(fresh, "networks"):
        fresh.networks({"policy": _GRAPH})
    _write(fresh, range(1, 5), Outcome(status="interrupted", reason="Ctrl-C"))
    _write(factory(attrs.evolve(context, resumed_epoch=2)), range(3, 5), Outcome(status="done", reason="4 epochs"))
    _write(factory(context), range(0), Outcome(status="failed", reason="before the first epoch"))
    outside = [path for path in set(run_dir.parent.rglob("*")) - beside if not path.is_relative_to(run_dir)]
    require(not outside, f"it writes outside the run directory: {', '.join(map(str, outside))}")


def _write(logger: Any, epochs: range, outcome: Outcome) -> None:
    require(callable(getattr(logger, "write", None)), "a logger needs a method write(record)")
    for name, argument in (("progress", Progress(env_steps=1, fraction=0.5)), ("message", "a worker was restarted")):
        if hasattr(logger, name):
            getattr(logger, name)(argument)
    for epoch in epochs:
        logger.write(_record(epoch))
    if hasattr(logger, "close"):
        logger.close(outcome)


def _record(epoch: int) -> EpochRecord:
    """Every kind of value; every other epoch is evaluated."""
    train = {
        "BaseEnvEvents/reward/mean": float(epoch),
        "ActorCriticEvents/policy_loss": float("nan"),
        "Actions/histogram": np.arange(5.0),
        "note": "text, with a comma",
    }
    evaluation = {"BaseEnvEvents/reward/mean": 2.0 * epoch} if epoch % 2 == 0 else {}
    return EpochRecord(
        epoch=epoch,
        env_steps=100 * epoch,
        wall_seconds=float(epoch),
        train=train,
        evaluation=evaluation,
        metric=evaluation.get("BaseEnvEvents/reward/mean"),
    )
