"""What this distribution gives to Maze; the entry point in pyproject.toml names this module."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent, TrainerComponent, WrapperComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_wrappers() -> Iterable[WrapperComponent]:
    """One transform of observations."""
    yield WrapperComponent(
        name="hello-clip",
        target="maze_hello.clip:Clip",
        options="maze_hello.options:ClipOptions",
        summary="Limits every observation to a range around zero.",
    )


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """One perception block."""
    yield BlockComponent(
        name="hello-residual",
        target="maze_hello.residual:Residual",
        options="maze_hello.options:ResidualOptions",
        summary="Adds a small network to its input.",
    )


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """One training algorithm."""
    yield TrainerComponent(
        name="hello-search",
        target="maze_hello.search:CrossEntropySearch",
        options="maze_hello.options:SearchOptions",
        summary="Cross-entropy search over the weights of the policy; no gradients.",
    )
