"""What this distribution provides: the trainer `es`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The one trainer."""
    yield TrainerComponent(
        name="es",
        target="maze_es.trainer:EvolutionTrainer",
        options="maze_es.options:ESOptions",
        critic="none",
        recurrent=True,
        collects_rollouts=True,
        preset="maze-wrappers:scaled-observations",
        summary="Evolution strategies: whole episodes with perturbed weights, no backpropagation.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """The settings of the examples."""
    for name, file, summary in (
        ("es-cartpole", "cartpole_es", "Evolution strategies as in examples/cartpole_es.toml."),
        (
            "es-lunarlander",
            "lunarlander_es",
            "Evolution strategies as in examples/lunarlander_es.toml, whose observations they scale.",
        ),
    ):
        yield PresetComponent(name=name, target=f"maze_es.presets:{file}.toml", summary=summary)
