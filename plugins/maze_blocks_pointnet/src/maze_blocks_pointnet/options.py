"""Options of the point-net block. Imports neither torch nor gymnasium."""

from __future__ import annotations

import attrs

from maze_perception.options import UNITS, NonLinearity, Pooling


@attrs.frozen(kw_only=True)
class PointNetOptions:
    """Options of `point-net`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(64, 128, 256), validator=UNITS)
    """Units a layer of the network that every point passes, first layer first; the last is the size of the output."""
    non_lin: NonLinearity = "relu"
    """Activation after every layer."""
    pooling: Pooling = "max"
    """How the points are reduced to one vector; without any point it is zero."""
    input_transform: bool = False
    """Multiply the points by a square matrix that a small network computes from all of them; identity at first."""
    feature_transform: bool = False
    """The same for the features after the first layer."""
    transform_units: tuple[int, ...] = attrs.field(default=(64, 128), validator=UNITS)
    """Units a layer of the networks that compute these matrices: each point through all of them, maximum, then
    through a dense layer half as wide as the last."""
