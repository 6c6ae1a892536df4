"""The convolution stack of the `auto` model, for images of any size in either channel order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_perception.block import PerceptionBlock, Shape, TensorDict
from maze_perception.blocks.dense import Layers
from maze_runtime.models.image_layout import channels_first, in_fast_layout
from maze_runtime.models.same_operations import same_operations
from maze_runtime.native.rectified import rectified_convolutions

_NATURE = ((8, 4), (4, 2), (3, 1))
_MEDIUM = ((4, 2), (3, 2), (3, 1))
_SMALL = ((3, 1), (3, 1))
_LARGEST_MAP = 100
_CHANNELS, _FURTHER_CHANNELS = 32, 64
_FEATURES = 512


@same_operations
class ImageFeatures(PerceptionBlock):
    """Convolutions with ReLU and a dense layer of 512, chosen by the shorter edge of the image.

    36 pixels and more: the network of Mnih et al. 2015, "Human-level control through deep reinforcement learning",
    Methods: 8 × 8 with stride 4 and 32 channels, 4 × 4 with stride 2 and 64, 3 × 3 and 64. 20 and more: 4 × 4 with
    stride 2, 3 × 3 with stride 2, 3 × 3. Fewer: 3 × 3 twice. Maps of more than 100 positions then pass 3 × 3 with
    stride 2, until they have no more. Channels: see `channels_first`.
    """

    def __init__(self, in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        self._rank = len(self.in_shapes[0])
        (n_channels, height, width), self._channels_last = channels_first(self.in_shapes[0])
        edge = min(height, width)
        layers: list[nn.Module] = []
        for kernel, stride in _NATURE if edge >= 36 else _MEDIUM if edge >= 20 else _SMALL:
            n_out = _FURTHER_CHANNELS if layers else _CHANNELS
            layers += [nn.Conv2d(n_channels, n_out, kernel, stride), nn.ReLU(inplace=True)]
            n_channels, height, width = n_out, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        while height * width > _LARGEST_MAP:
            layers += [nn.Conv2d(n_channels, _FURTHER_CHANNELS, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*layers)
        self._wants_native = False
        self.dense = Layers(n_channels * height * width, (_FEATURES,), "relu", bias=True)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(..., H, W, C), (..., C, H, W) or (..., H, W) to (..., 512)."""
        image = inputs[self.in_keys[0]]
        leading = image.shape[: image.dim() - self._rank]
        images = image.reshape(-1, *image.shape[image.dim() - self._rank :])
        maps = self._maps(in_fast_layout(self._channels_first(images)))
        # (B, H W C): flattened as it lies in memory
        features = self.dense(maps.permute(0, 2, 3, 1).flatten(1))
        return {self.out_keys[0]: features.reshape(*leading, _FEATURES)}

    def out_shapes(self) -> tuple[Shape, ...]:
        """A vector."""
        return ((_FEATURES,),)

    def prepare_for_compilation(self) -> None:
        """Let convolutions be computed in C++ from now on where no gradient is wanted."""
        self._wants_native = True

    def _maps(self, images: Tensor) -> Tensor:
        if self._wants_native and not torch.is_grad_enabled():
            return rectified_convolutions(self.convolutions[::2], images)  # type: ignore[arg-type]
        maps: Tensor = self.convolutions(images)
        return maps

    def _channels_first(self, images: Tensor) -> Tensor:
        if self._rank == 2:
            return images.unsqueeze(1)
        return images.permute(0, 3, 1, 2) if self._channels_last else images
