"""The convolution stack of the `auto` model, for images of any size in either channel order."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from maze_perception.block import PerceptionBlock, TensorDict

_CHANNELS = (32, 64, 64, 64, 64)
_SMALLEST = 6
_FEATURES = 256


class ImageFeatures(PerceptionBlock):
    """Convolutions, 3 × 3 with stride 2 and ReLU, until an edge has at most 6 pixels; then a dense layer of 256.

    The channels are the shorter of the first and the last dimension (the last where they are equal); an image of two
    dimensions has one channel.
    """

    def __init__(self, in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        shape = self.in_shapes[0]
        self._rank = len(shape)
        self._channels_last = self._rank == 3 and shape[2] <= shape[0]
        if self._rank == 2:
            n_channels, height, width = 1, *shape
        elif self._channels_last:
            height, width, n_channels = shape
        else:
            n_channels, height, width = shape
        layers: list[nn.Module] = []
        for out_channels in _CHANNELS:
            if min(height, width) <= _SMALLEST:
                break
            layers += [nn.Conv2d(n_channels, out_channels, 3, stride=2, padding=1), nn.ReLU()]
            n_channels, height, width = out_channels, (height + 1) // 2, (width + 1) // 2
        layers += [nn.Flatten(), nn.Linear(n_channels * height * width, _FEATURES), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(..., H, W, C), (..., C, H, W) or (..., H, W) to (..., 256)."""
        image = inputs[self.in_keys[0]]
        leading = image.shape[: image.dim() - self._rank]
        images = image.reshape(-1, *image.shape[image.dim() - self._rank :])
        return {self.out_keys[0]: self.layers(self._channels_first(images)).reshape(*leading, _FEATURES)}

    def _channels_first(self, images: Tensor) -> Tensor:
        if self._rank == 2:
            return images.unsqueeze(1)
        return images.permute(0, 3, 1, 2) if self._channels_last else images
