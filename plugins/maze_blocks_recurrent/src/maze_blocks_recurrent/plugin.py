"""What this distribution gives to Maze: recurrent blocks, over stacked time or carried from step to step."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent, PresetComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """All steps, or the last one."""
    yield BlockComponent(
        name="lstm",
        target="maze_blocks_recurrent.stateful:make_lstm",
        options="maze_blocks_recurrent.options:StatefulOptions",
        summary="Long short-term memory over stacked time, giving every step; or carried from step to step.",
    )
    yield BlockComponent(
        name="gru",
        target="maze_blocks_recurrent.stateful:make_gru",
        options="maze_blocks_recurrent.options:StatefulOptions",
        summary="Gated recurrent units over stacked time, giving every step; or carried from step to step.",
    )
    yield BlockComponent(
        name="lstm-last-step",
        target="maze_blocks_recurrent.blocks:LSTMLastStep",
        options="maze_blocks_recurrent.options:RecurrentOptions",
        summary="Long short-term memory over stacked time; gives the final state.",
    )
    yield BlockComponent(
        name="gru-last-step",
        target="maze_blocks_recurrent.blocks:GRULastStep",
        options="maze_blocks_recurrent.options:RecurrentOptions",
        summary="Gated recurrent units over stacked time; gives the final state.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """A network with a memory."""
    for name, file, summary in (
        ("recurrent", "recurrent", "The default model with a GRU whose state is carried from step to step."),
    ):
        yield PresetComponent(name=name, target=f"maze_blocks_recurrent.presets:{file}.toml", summary=summary)
