"""Options of the attention blocks. Imports neither torch nor gymnasium."""

from __future__ import annotations

import attrs

from maze_kernel.validators import at_least


@attrs.frozen(kw_only=True)
class SelfAttentionSeqOptions:
    """Options of `self-attention-seq`."""

    num_heads: int = attrs.field(default=1, validator=at_least(1))
    """Attention heads; the embedding is divided among them."""
    embed_dim: int = attrs.field(default=0, validator=at_least(0))
    """Size of queries, keys and values, of all heads together; 0: the input's features."""
    bias: bool = True
    """Whether the projections add a bias."""
    add_input_to_output: bool = True
    """Add the input to the attention."""


@attrs.frozen(kw_only=True)
class MultiHeadAttentionOptions:
    """Options of `multi-head-attention`."""

    num_heads: int = attrs.field(default=4, validator=at_least(1))
    """Attention heads; the embedding is divided among them."""
    embed_dim: int = attrs.field(default=0, validator=at_least(0))
    """Size of queries, keys and values, of all heads together, and of the output; 0: the features of the queries."""
    bias: bool = True
    """Whether the projections add a bias."""
    masked: bool = False
    """Whether the last input is a mask of the keys: zero hides a key."""
