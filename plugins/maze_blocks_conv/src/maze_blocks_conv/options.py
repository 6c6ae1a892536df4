"""Options of the convolution blocks. Imports neither torch nor gymnasium."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from maze_kernel.validators import at_least
from maze_perception.options import UNITS, NonLinearity

ChannelOrder = Literal["first", "last"]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


def _one_a_layer(instance: Any, attribute: attrs.Attribute[Any], value: tuple[int, ...]) -> None:
    if value and len(value) != len(instance.hidden_channels):
        raise ValueError(
            f"{attribute.name} {list(value)} has {len(value)} entries, hidden_channels "
            f"{list(instance.hidden_channels)} has {len(instance.hidden_channels)}"
        )


def _not_negative(_instance: object, attribute: attrs.Attribute[Any], value: tuple[int, ...]) -> None:
    if any(size < 0 for size in value):
        raise ValueError(f"{attribute.name} {list(value)} must not be negative")


_LAYER_SIZES = [*UNITS, _one_a_layer]
_OPTIONAL_SIZES = [UNITS[1], _one_a_layer]


@attrs.frozen(kw_only=True)
class StridedConvolutionOptions:
    """Options of `strided-convolution`; the defaults are the network of Mnih et al. 2015."""

    hidden_channels: tuple[int, ...] = attrs.field(default=(32, 64, 64), validator=UNITS)
    """Channels a layer, first layer first."""
    hidden_kernels: tuple[int, ...] = attrs.field(default=(8, 4, 3), validator=_LAYER_SIZES)
    """Edge of the kernel a layer."""
    hidden_strides: tuple[int, ...] = attrs.field(default=(4, 2, 1), validator=_OPTIONAL_SIZES)
    """Stride a layer; []: 1 everywhere."""
    hidden_dilations: tuple[int, ...] = attrs.field(default=(), validator=_OPTIONAL_SIZES)
    """Dilation a layer; []: 1 everywhere."""
    hidden_paddings: tuple[int, ...] = attrs.field(default=(), validator=[_not_negative, _one_a_layer])
    """Padding on each side a layer; []: none."""
    padding_mode: PaddingMode = "zeros"
    """What the padding is filled with."""
    convolution_dimension: Literal[1, 2, 3] = 2
    """Dimensions of the convolution: 1 for sequences, 2 for images, 3 for volumes."""
    non_lin: NonLinearity = "relu"
    """Activation after every convolution."""
    bias: bool = True
    """Whether the convolutions add a bias."""
    channel_order: ChannelOrder = "first"
    """Where the input has its channels: "first" (C, H, W) or "last" (H, W, C). Outputs have them first."""


@attrs.frozen(kw_only=True)
class StridedConvolutionDenseOptions(StridedConvolutionOptions):
    """Options of `strided-convolution-dense`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(512,), validator=UNITS)
    """Units a dense layer, first layer first; `non_lin` follows each."""


@attrs.frozen(kw_only=True)
class NatureCNNOptions:
    """Options of `nature-cnn`. Source: Mnih et al. 2015."""

    hidden_units: tuple[int, ...] = attrs.field(default=(512,), validator=UNITS)
    """Units a dense layer, first layer first; a ReLU follows each."""
    channel_order: Literal["auto", "first", "last"] = "auto"
    """Where the input has its channels: "first" (C, H, W) or "last" (H, W, C); "auto": in the shorter of both."""


@attrs.frozen(kw_only=True)
class VGGConvolutionOptions:
    """Options of `vgg-convolution` and `vgg-convolution-gap`."""

    hidden_channels: tuple[int, ...] = attrs.field(default=(32, 64, 128), validator=UNITS)
    """Channels a stage, first stage first: two convolutions 3 × 3 with padding 1, then maximum pooling 2 × 2."""
    use_batch_norm: bool = False
    """Batch normalisation between each convolution and its activation; the convolutions then have no bias."""
    non_lin: NonLinearity = "relu"
    """Activation after every convolution."""
    channel_order: ChannelOrder = "first"
    """Where the input has its channels: "first" (C, H, W) or "last" (H, W, C). Outputs have them first."""


@attrs.frozen(kw_only=True)
class VGGConvolutionDenseOptions(VGGConvolutionOptions):
    """Options of `vgg-convolution-dense`."""

    hidden_units: tuple[int, ...] = attrs.field(default=(256,), validator=UNITS)
    """Units a dense layer, first layer first; `non_lin` follows each."""


@attrs.frozen(kw_only=True)
class SelfAttentionConvOptions:
    """Options of `self-attention-conv`. Source: Zhang et al. 2019."""

    embed_dim: int = attrs.field(default=0, validator=at_least(0))
    """Size of queries and keys; 0: an eighth of the channels, at least 1."""
    bias: bool = True
    """Whether the 1 × 1 convolutions add a bias."""
    add_input_to_output: bool = True
    """Give the input plus gamma times the attention, with a learnt gamma that starts at 0; false: the attention
    alone."""
