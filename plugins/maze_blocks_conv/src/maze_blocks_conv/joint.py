"""Convolutions that end in a vector: dense layers, or an average over all positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from maze_blocks_conv.options import StridedConvolutionDenseOptions, VGGConvolutionDenseOptions
from maze_blocks_conv.strided import StridedConvolution
from maze_blocks_conv.vgg import VGGConvolution
from maze_perception.blocks.dense import Layers


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


class VGGConvolutionGAP(VGGConvolution):
    """VGG stages, then the average over all positions: (B, C, H, W) to (B, hidden_channels[-1])."""

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, hidden_channels[-1])."""
        return super().features(x).mean((2, 3))
