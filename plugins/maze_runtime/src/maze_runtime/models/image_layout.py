"""Where the channels of an image are, in its shape and in memory."""

from __future__ import annotations

import torch
from torch import Tensor

Shape = tuple[int, ...]


def channels_first(shape: Shape) -> tuple[Shape, bool]:
    """(C, H, W) of an image (H, W), (H, W, C) or (C, H, W), and whether the channels are last.

    They are the shorter of the first and the last dimension, the last where both are equal.
    """
    if len(shape) == 2:
        return (1, *shape), False
    if shape[2] <= shape[0]:
        return (shape[2], *shape[:2]), True
    return shape, False


def in_fast_layout(images: Tensor) -> Tensor:
    """The same images (B, C, H, W), their channels side by side in memory where a gradient is wanted.

    On the CPU the gradient of an 8 × 8 convolution with four input channels costs a quarter of what it costs with
    planes; a forward pass alone costs a tenth more. On a GPU both together cost four fifths. One channel lies in both
    ways at once, and has to be said to lie in this one for the layers behind to do, too.
    Written as permutations, because `vmap` knows no memory formats.
    """
    if not torch.is_grad_enabled():
        return images
    n, n_channels, *size = images.shape
    turned = images.reshape(n, *size, 1) if n_channels == 1 else images.permute(0, 2, 3, 1).contiguous()
    return turned.permute(0, 3, 1, 2)


def select_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """The rows (M, ...) of a tensor (B, ...), copied; those of images stay turned if they were."""
    if tensor.dim() != 4 or tensor.is_contiguous():
        return tensor.index_select(0, index)
    return tensor.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
