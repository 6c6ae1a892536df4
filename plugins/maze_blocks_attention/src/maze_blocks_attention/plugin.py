"""What this distribution gives to Maze: attention blocks over sets and sequences."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """Attention between two sets, and within one."""
    yield BlockComponent(
        name="multi-head-attention",
        target="maze_blocks_attention.blocks:MultiHeadAttention",
        options="maze_blocks_attention.options:MultiHeadAttentionOptions",
        summary="Scaled dot-product attention with several heads, from queries to keys and values.",
    )
    yield BlockComponent(
        name="self-attention-seq",
        target="maze_blocks_attention.blocks:SelfAttentionSeq",
        options="maze_blocks_attention.options:SelfAttentionSeqOptions",
        summary="Attention of the items of a set or sequence to each other, under a mask if there is one.",
    )
