"""What this distribution provides: the trainer `impala`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The one trainer."""
    yield TrainerComponent(
        name="impala",
        target="maze_impala.trainer:ImpalaTrainer",
        options="maze_impala.options:ImpalaOptions",
        collects_rollouts=True,
        recurrent=True,
        preset="maze-wrappers:scaled",
        summary="IMPALA: actors collect without waiting for the learner, which corrects with V-trace.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """The settings of the example."""
    for name, file, summary in (
        ("impala-cartpole", "cartpole_impala", "IMPALA as in examples/cartpole_impala.toml: actors in two processes."),
    ):
        yield PresetComponent(name=name, target=f"maze_impala.presets:{file}.toml", summary=summary)
