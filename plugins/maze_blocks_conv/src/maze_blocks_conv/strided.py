"""Strided convolutions in 1, 2 or 3 dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_blocks_conv.feature_map import FeatureMapBlock
from maze_blocks_conv.options import StridedConvolutionOptions
from maze_perception.mirror import ACTIVATIONS, IN_PLACE
from maze_runtime.models.same_operations import same_operations
from maze_runtime.native.rectified import rectified_convolutions

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@same_operations
class StridedConvolution(FeatureMapBlock):
    """Convolutions with an activation after each: (B, C, *positions) to (B, hidden_channels[-1], *fewer)."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: StridedConvolutionOptions,
    ) -> None:
        n_dims = options.convolution_dimension
        super().__init__(in_keys, out_keys, in_shapes, n_dims=n_dims, channel_order=options.channel_order)
        n_channels, *positions = self.channels_first_shape
        ones = (1,) * len(options.hidden_channels)
        strides, dilations = options.hidden_strides or ones, options.hidden_dilations or ones
        paddings = options.hidden_paddings or (0,) * len(ones)
        self.convolutions = nn.ModuleList()
        layers = zip(options.hidden_channels, options.hidden_kernels, strides, dilations, paddings, strict=True)
        for index, (out_channels, kernel, stride, dilation, padding) in enumerate(layers):
            reach = dilation * (kernel - 1) + 1
            if min(positions) + 2 * padding < reach:
                raise self.too_small(f"layer {index} reaches over {reach} and", positions)
            positions = [(size + 2 * padding - reach) // stride + 1 for size in positions]
            self.convolutions.append(
                _CONVOLUTIONS[n_dims](
                    n_channels,
                    out_channels,
                    kernel,
                    stride,
                    padding,
                    dilation,
                    bias=options.bias,
                    padding_mode=options.padding_mode,
                )
            )
            n_channels = out_channels
        self.map_shape = (n_channels, *positions)
        # Into the tensor the convolution made, whose gradient does not need it.
        self._activation = IN_PLACE.get(options.non_lin, ACTIVATIONS[options.non_lin][0])
        self._can_be_native = n_dims == 2 and options.non_lin == "relu"
        self._wants_native = False

    def prepare_for_compilation(self) -> None:
        """Let rectified convolutions of images be computed in C++ from now on where no gradient is wanted."""
        self._wants_native = self._can_be_native

    def features(self, x: Tensor) -> Tensor:
        """(B, C, *positions) to (B, *map_shape)."""
        if self._wants_native and not torch.is_grad_enabled():
            return rectified_convolutions(self.convolutions, x)  # type: ignore[arg-type]
        for convolution in self.convolutions:
            x = self._activation(convolution(x))
        return x
