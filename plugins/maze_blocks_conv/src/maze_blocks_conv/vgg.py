"""VGG stages (Simonyan and Zisserman 2015): small convolutions in pairs, then maximum pooling."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from maze_blocks_conv.feature_map import FeatureMapBlock
from maze_blocks_conv.options import VGGConvolutionOptions
from maze_perception.mirror import ACTIVATIONS
from maze_runtime.models.same_operations import same_operations


@same_operations
class VGGStage(nn.Module):
    """Twice convolution 3 × 3, batch normalisation if asked for, and activation; then maximum pooling 2 × 2."""

    def __init__(self, in_channels: int, out_channels: int, non_lin: str, use_batch_norm: bool) -> None:
        super().__init__()
        sizes = (in_channels, out_channels)
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(size, out_channels, 3, padding=1, bias=not use_batch_norm) for size in sizes]
        )
        self.norms = nn.ModuleList(
            [nn.BatchNorm2d(out_channels) if use_batch_norm else nn.Identity() for _ in range(2)]
        )
        self._activation = ACTIVATIONS[non_lin][0]

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, out_channels, H // 2, W // 2)."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self._activation(norm(convolution(x)))
        return functional.max_pool2d(x, 2)


@same_operations
class VGGConvolution(FeatureMapBlock):
    """Stages that halve the edges: (B, C, H, W) to (B, hidden_channels[-1], H / 2ⁿ, W / 2ⁿ), rounded down."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: VGGConvolutionOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, channel_order=options.channel_order)
        n_channels, height, width = self.channels_first_shape
        self.stages = nn.Sequential()
        for index, out_channels in enumerate(options.hidden_channels):
            if min(height, width) < 2:
                raise self.too_small(f"stage {index} pools 2 × 2 and", (height, width))
            self.stages.append(VGGStage(n_channels, out_channels, options.non_lin, options.use_batch_norm))
            n_channels, height, width = out_channels, height // 2, width // 2
        self.map_shape = (n_channels, height, width)

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, *map_shape)."""
        return self.stages(x)  # type: ignore[no-any-return]
