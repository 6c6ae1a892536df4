"""What this distribution gives to Maze: convolution blocks."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import BlockComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_blocks() -> Iterable[BlockComponent]:
    """Feature maps, and vectors of them."""
    yield BlockComponent(
        name="strided-convolution",
        target="maze_blocks_conv.strided:StridedConvolution",
        options="maze_blocks_conv.options:StridedConvolutionOptions",
        summary="Strided convolutions over sequences, images or volumes.",
    )
    yield BlockComponent(
        name="strided-convolution-dense",
        target="maze_blocks_conv.joint:StridedConvolutionDense",
        options="maze_blocks_conv.options:StridedConvolutionDenseOptions",
        summary="Strided convolutions, flattened, then fully connected layers.",
    )
    yield BlockComponent(
        name="nature-cnn",
        target="maze_blocks_conv.joint:NatureCNN",
        options="maze_blocks_conv.options:NatureCNNOptions",
        summary="The network of Mnih et al. 2015 for Atari frames: three convolutions and a dense layer of 512.",
    )
    yield BlockComponent(
        name="vgg-convolution",
        target="maze_blocks_conv.vgg:VGGConvolution",
        options="maze_blocks_conv.options:VGGConvolutionOptions",
        summary="Stages of two 3 × 3 convolutions and maximum pooling over images.",
    )
    yield BlockComponent(
        name="vgg-convolution-dense",
        target="maze_blocks_conv.joint:VGGConvolutionDense",
        options="maze_blocks_conv.options:VGGConvolutionDenseOptions",
        summary="VGG stages, flattened, then fully connected layers.",
    )
    yield BlockComponent(
        name="vgg-convolution-gap",
        target="maze_blocks_conv.joint:VGGConvolutionGAP",
        options="maze_blocks_conv.options:VGGConvolutionOptions",
        summary="VGG stages, then the average over all positions.",
    )
    yield BlockComponent(
        name="self-attention-conv",
        target="maze_blocks_conv.attention:SelfAttentionConv",
        options="maze_blocks_conv.options:SelfAttentionConvOptions",
        summary="Self-attention over the positions of a feature map.",
    )
