"""What all convolution blocks share: channels first or last, and any leading dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from maze_blocks_conv.options import ChannelOrder
from maze_perception.block import BlockError, Shape, TensorDict
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.image_layout import in_fast_layout


class FeatureMapBlock(ShapeNormalizationBlock):
    """One image in, one tensor out.

    Args:
        n_dims: dimensions of the convolution; the input has one more.
        channel_order: where the input has its channels.

    Subclasses write `features`. `channels_first_shape` is the shape of one sample that it gets.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        *,
        n_dims: int = 2,
        channel_order: ChannelOrder = "first",
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=n_dims + 2)
        self.require_one_in_one_out()
        shape = self.in_shapes[0]
        if len(shape) > n_dims + 1:
            shape = shape[len(shape) - n_dims - 1 :]
        self._channels_last = channel_order == "last"
        self.channels_first_shape: Shape = (shape[-1], *shape[:-1]) if self._channels_last else shape

    def features(self, x: Tensor) -> Tensor:
        """(B, C, *positions) to the output, batch dimension first."""
        raise NotImplementedError

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, C, *positions) or (B, *positions, C) to the output."""
        x = inputs[self.in_keys[0]]
        x = x.movedim(-1, 1) if self._channels_last else x
        return {self.out_keys[0]: self.features(in_fast_layout(x) if x.dim() == 4 else x)}

    def too_small(self, layer: str, positions: Sequence[int]) -> BlockError:
        """The error of a layer that finds too few positions."""
        return BlockError(
            f"{type(self).__name__} cannot read {self.in_keys[0]!r}: {layer} finds {tuple(positions)} positions",
            received=f"shape {self.in_shapes[0]}",
            expected="more positions, channels " + ("last" if self._channels_last else "first"),
            help="use fewer layers, smaller kernels or strides, or check channel_order",
        )
