"""What this distribution gives to Maze: features of sets of points."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """One block."""
    yield BlockComponent(
        name="point-net",
        target="maze_blocks_pointnet.point_net:PointNet",
        options="maze_blocks_pointnet.options:PointNetOptions",
        summary="One vector for a set of points, whatever their order and number.",
    )
