"""Rectified convolutions in C++ for networks that act while their updates are compiled.

Eight images through the network of Mnih et al. 2015 take oneDNN 1.3 ms, `convolutions.cpp` 0.7.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from maze_runtime.models.processor import HAS_VECTORS
from maze_runtime.native.convolutions import ConvolutionSizes, convolutions_library, sizes_that_pay


def rectified_convolutions(layers: Iterable[nn.Conv2d], images: Tensor) -> Tensor:
    """Convolutions with a rectifier behind each, (B, O, H', W'), without gradients.

    Those of torch where C++ would not pay, or where operations are traced.

    Args:
        layers: one behind the other.
        images: (B, C, H, W).
    """
    is_native = _can_be_native(images)
    for layer in layers:
        sizes = _sizes_of(tuple(images.shape), layer) if is_native else None
        images = layer(images).relu_() if sizes is None else _convolved(layer, images, sizes)
    return images


def _can_be_native(images: Tensor) -> bool:
    return (
        HAS_VECTORS
        and type(images) is Tensor
        and images.device.type == "cpu"
        and images.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_function_stack() == 0  # somebody watches what is called
        and convolutions_library() is not None
    )


def _sizes_of(shape: tuple[int, ...], layer: nn.Conv2d) -> ConvolutionSizes | None:
    """None where it does not pay, or is none of those that are known."""
    if type(layer) is not nn.Conv2d or layer._forward_hooks or layer._forward_pre_hooks:
        return None
    weight, padding = layer.weight, layer.padding
    if weight.dtype != torch.float32 or not weight.is_contiguous() or isinstance(padding, str):
        return None
    if layer.groups != 1 or layer.padding_mode != "zeros" or layer.dilation != (1, 1):
        return None
    return _sizes(shape, tuple(weight.shape), tuple(layer.stride), tuple(padding))


_sizes = lru_cache(maxsize=256)(sizes_that_pay)


def _convolved(layer: nn.Conv2d, images: Tensor, sizes: ConvolutionSizes) -> Tensor:
    library = convolutions_library()
    assert library is not None
    x = images.permute(0, 2, 3, 1).contiguous()
    out = x.new_empty(sizes.n_images, sizes.out_height, sizes.out_width, sizes.units)
    told = _Rectified(
        *x.shape,
        *out.shape[1:],
        sizes.stride,
        sizes.padding,
        sizes.points(),
        sizes.kernel // sizes.stride,
        torch.get_num_threads(),
        x.data_ptr(),
        layer.weight.data_ptr(),
        None if layer.bias is None else layer.bias.data_ptr(),
        out.data_ptr(),
    )
    failed = library.rectified_convolution(ctypes.byref(told))
    assert not failed, sizes
    return out.permute(0, 3, 1, 2)


class _Rectified(ctypes.Structure):
    """`Rectified` of `convolutions.cpp`."""

    _NUMBERS = (
        "n_images",
        "height",
        "width",
        "channels",
        "out_height",
        "out_width",
        "units",
        "stride",
        "padding",
        "points",
        "taps",
        "n_threads",
    )
    _fields_: ClassVar = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, ctypes.c_void_p) for name in ("x", "weight", "bias", "out")),
    ]
