"""Options of the graph blocks. Imports neither torch nor gymnasium."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import at_least
from maze_perception.options import UNITS, NonLinearity, Pooling


@attrs.frozen(kw_only=True)
class GraphConvolutionOptions:
    """Options of `graph-convolution`."""

    hidden_features: tuple[int, ...] = attrs.field(default=(64, 64), validator=UNITS)
    """Features of a node a layer, first layer first."""
    non_lin: NonLinearity = "relu"
    """Activation after every layer."""
    bias: bool = True
    """Whether the layers add a bias."""
    normalization: Literal["symmetric", "row", "none"] = "symmetric"
    """What the adjacency is divided by: "symmetric": the roots of both nodes' degrees; "row": the degree of the node
    that receives (a mean); "none": nothing. A node of degree 0 receives nothing."""
    node_self_importance: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Weight of the link that every node gets to itself, added to the adjacency."""
    trainable_node_self_importance: bool = False
    """Whether this weight is learnt, from that value on; one a layer."""


@attrs.frozen(kw_only=True)
class GraphAttentionOptions:
    """Options of `graph-attention`."""

    hidden_features: tuple[int, ...] = attrs.field(default=(16, 16), validator=UNITS)
    """Features of a node and head a layer, first layer first."""
    num_heads: int = attrs.field(default=4, validator=at_least(1))
    """Attention heads of every layer; their features are put one behind the other."""
    avg_last_head_attentions: bool = True
    """Average the heads of the last layer, which then gives `hidden_features[-1]` features."""
    attention_alpha: float = attrs.field(default=0.2, validator=at_least(0.0))
    """Slope of the leaky ReLU of the scores below zero."""
    non_lin: NonLinearity = "elu"
    """Activation after every layer."""
    bias: bool = True
    """Whether the layers add a bias."""


@attrs.frozen(kw_only=True)
class MessagePassingOptions:
    """Options of `message-passing`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(64,), validator=UNITS)
    """Units a layer of the networks that compute edges and nodes; the last is the size of both outputs."""
    n_rounds: int = attrs.field(default=2, validator=at_least(1))
    """Rounds of messages; each has networks of its own."""
    aggregation: Pooling = "mean"
    """How the messages that reach a node are joined; a node that none reaches gets zeros."""
    non_lin: NonLinearity = "relu"
    """Activation after every layer."""
