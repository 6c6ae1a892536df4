"""Convolutions in C++ by minimal filtering, for compiled updates on processors with vectors of 256 or 512 bits.

oneDNN computes a convolution by all of its products, close to what the processor can do. Where neighbouring outputs
share inputs, a half to three quarters of the products are not needed (Lavin and Gray 2016, "Fast Algorithms for
Convolutional Neural Networks"): the network of Mnih et al. 2015 takes 0.43 of them. Compiled code calls
`convolutions.cpp` without Python in between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor
from torch.nn import functional

from maze_runtime.native.by_name import Shims, shims_of
from maze_runtime.native.library import build_library

SOURCE = Path(__file__).with_name("convolutions.cpp")

_LANES = 16
"""float32 numbers of the widest vector: units come in multiples of it, and channels count as filled up to one."""

_POINTS = {2: (4,), 3: (4, 6)}
"""At how many points images and filters are evaluated (`filtering.h`), by taps of the filter across one stride."""

_MOST_PRODUCTS = 0.7
"""Of those of a plain convolution; with more it pays no longer to carry inputs and outputs over."""

_FEWEST_TILES = 16
"""Of a minibatch; for fewer it does not pay to carry the filters over."""


@attrs.frozen(kw_only=True)
class ConvolutionSizes:
    """Of a convolution with as many taps down as across, the same stride and padding both ways, in one group.

    Attributes:
        n_images: B.
        channels, units: C and O.
        out_height, out_width: of what it gives.
        kernel, stride, padding: in pixels.
    """

    n_images: int
    channels: int
    units: int
    out_height: int
    out_width: int
    kernel: int
    stride: int
    padding: int

    def points(self) -> int:
        """At how many points down and across images and filters are to be evaluated; 0 where that does not pay."""
        if self.kernel % self.stride or self.units % _LANES or (self.padding and self.stride > 1):
            return 0
        choices = [own for own in _POINTS.get(self.kernel // self.stride, ()) if self._tiles(own) >= _FEWEST_TILES]
        best = min(choices, key=self._products, default=0)
        return best if best and self._products(best) <= _MOST_PRODUCTS * self._plain_products() else 0

    def _tiles(self, points: int) -> int:
        outputs = points - self.kernel // self.stride + 1
        return self.n_images * -(-self.out_height // outputs) * -(-self.out_width // outputs)

    def _products(self, points: int) -> int:
        filled_up = -(-self.stride * self.channels // _LANES) * _LANES
        return self._tiles(points) * points**2 * self.stride * filled_up

    def _plain_products(self) -> int:
        return self.n_images * self.out_height * self.out_width * self.kernel**2 * self.channels


def sizes_that_pay(
    images: Sequence[int], filters: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> ConvolutionSizes | None:
    """Those of a convolution that C++ takes; None for all others, and for what does not fit, which torch refuses.

    Args:
        images: (B, C, H, W).
        filters: (O, C, K, K).
        strides, paddings: down and across.
    """
    if len(images) != 4 or len(filters) != 4:
        return None
    (n_images, channels, height, width), (units, read, kernel, other) = images, filters
    if channels != read or kernel != other or len({*strides}) + len({*paddings}) != 2:
        return None
    (stride, *_), (padding, *_) = strides, paddings
    sizes = ConvolutionSizes(
        n_images=n_images,
        channels=channels,
        units=units,
        out_height=(height + 2 * padding - kernel) // stride + 1,
        out_width=(width + 2 * padding - kernel) // stride + 1,
        kernel=kernel,
        stride=stride,
        padding=padding,
    )
    has_outputs = min(sizes.out_height, sizes.out_width) > 0
    return sizes if has_outputs and sizes.points() else None


def _define(name: str, takes_and_gives: str) -> Any:
    # Channels have to lie side by side, as they do in the graph
    torch.library.define(f"maze_runtime::{name}", takes_and_gives, tags=(torch.Tag.needs_exact_strides,))
    return getattr(torch.ops.maze_runtime, name).default


native_convolution = _define(
    "native_convolution",
    "(Tensor x, Tensor weight, Tensor? bias, int stride, int padding, int points, int threads, float scale,"
    " bool is_rectified)"
    " -> Tensor",
)
"""x (B, C, H, W), float32 or bytes that count `scale` each, by weight (O, C, K, K) + bias (O,): (B, O, H', W') float32,
no less than 0 if rectified.

`points` as `ConvolutionSizes.points` says, on as many threads. Channels of images lie side by side in memory.
"""

native_gradients = _define(
    "native_convolution_gradients",
    "(Tensor gradient, Tensor x, Tensor weight, Tensor? out, int stride, int padding, int points, int threads)"
    " -> (Tensor, Tensor, Tensor)",
)
"""Of x, weight and bias, where `gradient` is that of outputs: of rectified ones if these are given as `out`."""

native_filter_gradients = _define(
    "native_convolution_filter_gradients",
    "(Tensor gradient, Tensor x, Tensor weight, Tensor? out, int stride, int padding, int points, int threads,"
    " float scale)"
    " -> (Tensor, Tensor)",
)
"""The same, of weight and bias alone."""


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, *rest: Any) -> Tensor:
    _points, _threads, scale, is_rectified = rest
    out = functional.conv2d(x.float() * scale, weight, bias, stride, padding)
    return _channels_last(out.relu() if is_rectified else out)


def _gradients(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_x, of_weight, of_bias = _all_gradients(*given[:6])
    return _channels_last(of_x), of_weight.contiguous(), of_bias


def _filter_gradients(gradient: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *settings, _points, _threads, scale = rest
    _, of_weight, of_bias = _all_gradients(gradient, x.float() * scale, *settings)
    return of_weight.contiguous(), of_bias


def _all_gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, out: Tensor | None, stride: int, padding: int
) -> tuple[Tensor, Tensor, Tensor]:
    passed = gradient if out is None else torch.where(out <= 0.0, 0.0, gradient)
    of_all: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        passed, x, weight, [len(weight)], [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, [True] * 3
    )
    return of_all


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


for _operation, _by_torch in (
    (native_convolution, _convolution),
    (native_gradients, _gradients),
    (native_filter_gradients, _filter_gradients),
):
    torch.library.impl(_operation._schema.name, "CPU", _by_torch)
    torch.library.register_fake(_operation._schema.name, _by_torch)


@cache
def convolutions_library() -> ctypes.CDLL | None:
    """`convolutions.cpp`, built once a process; None where that is not possible."""
    return build_library(SOURCE, calls_torch=True)


@cache
def native_convolutions_shims() -> Shims:
    """What the compiler is told of `convolutions.cpp`; empty where that cannot be built."""
    handle, number, flag = "AtenTensorHandle", "int64_t", "int32_t"
    images = f"{handle}, {handle}, {handle}*, {number}, {number}, {number}, {number}"
    gradients = f"{handle}, {images}"
    return shims_of(
        convolutions_library(),
        {
            native_convolution: f"{images}, double, {flag}, {handle}*",
            native_gradients: f"{gradients}, {handle}*, {handle}*, {handle}*",
            native_filter_gradients: f"{gradients}, double, {handle}*, {handle}*",
        },
    )
