"""Convolutions that end in a vector: dense layers, or an average over all positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from maze_blocks_conv.options import NatureCNNOptions, StridedConvolutionDenseOptions, VGGConvolutionDenseOptions
from maze_blocks_conv.strided import StridedConvolution
from maze_blocks_conv.vgg import VGGConvolution
from maze_perception.blocks.dense import Layers
from maze_runtime.models.image_layout import channels_first
from maze_runtime.models.same_operations import same_operations


@same_operations
class StridedConvolutionDense(StridedConvolution):
    """Strided convolutions, then dense layers: (B, C, *positions) to (B, hidden_units[-1])."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: StridedConvolutionDenseOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, options)
        self.layers = Layers(math.prod(self.map_shape), options.hidden_units, options.non_lin, bias=True)

    def features(self, x: Tensor) -> Tensor:
        """(B, C, *positions) to (B, hidden_units[-1])."""
        return self.layers.forward(super().features(x).flatten(1))


@same_operations
class NatureCNN(StridedConvolutionDense):
    """The network of Mnih et al. 2015, "Human-level control through deep reinforcement learning", Methods.

    8 × 8 with stride 4 and 32 channels, 4 × 4 with stride 2 and 64, 3 × 3 and 64, a dense layer; ReLU after each.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: NatureCNNOptions,
    ) -> None:
        order, shape = options.channel_order, tuple(in_shapes[0])[-3:]
        if order == "auto":
            order = "last" if len(shape) == 3 and channels_first(shape)[1] else "first"
        layers = StridedConvolutionDenseOptions(hidden_units=options.hidden_units, channel_order=order)
        super().__init__(in_keys, out_keys, in_shapes, layers)


@same_operations
class VGGConvolutionDense(VGGConvolution):
    """VGG stages, then dense layers: (B, C, H, W) to (B, hidden_units[-1])."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: VGGConvolutionDenseOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, options)
        self.layers = Layers(math.prod(self.map_shape), options.hidden_units, options.non_lin, bias=True)

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, hidden_units[-1])."""
        return self.layers.forward(super().features(x).flatten(1))


@same_operations
class VGGConvolutionGAP(VGGConvolution):
    """VGG stages, then the average over all positions: (B, C, H, W) to (B, hidden_channels[-1])."""

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, hidden_channels[-1])."""
        return super().features(x).mean((2, 3))
