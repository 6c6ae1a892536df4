"""What this distribution gives to Maze: graph blocks."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """Over a dense adjacency, and over lists of links."""
    yield BlockComponent(
        name="graph-convolution",
        target="maze_blocks_graph.convolution:GraphConvolution",
        options="maze_blocks_graph.options:GraphConvolutionOptions",
        summary="Convolutions over the nodes of a graph given by its adjacency.",
    )
    yield BlockComponent(
        name="graph-attention",
        target="maze_blocks_graph.attention:GraphAttention",
        options="maze_blocks_graph.options:GraphAttentionOptions",
        summary="Attention of the nodes of a graph to their neighbours.",
    )
    yield BlockComponent(
        name="message-passing",
        target="maze_blocks_graph.message_passing:MessagePassing",
        options="maze_blocks_graph.options:MessagePassingOptions",
        summary="Rounds of messages along the links of a graph, between nodes with features and edges with features.",
    )
