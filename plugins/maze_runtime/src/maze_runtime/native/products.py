"""Products of matrices in C++, for compiled updates on processors with vectors of 256 or 512 bits.

A call of MKL or oneDNN takes as long as a product of layers of 64 units, and MKL computes at half of the width of AMD's
newer processors; see `maze_runtime.models.wide_products`. At such sizes `products.cpp` takes three quarters of MKL's
time on Intel's processors and a third on those, where it takes no more than oneDNN's on one thread at others, too; on
Zen 4 it takes 0.6 to 0.96 of MKL's, on Zen 3 (256 bits) 0.7 to 1.1, and less where there are zeros.
Compiled code calls it without Python in between.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from maze_runtime.native.by_name import Shims, shims_of
from maze_runtime.native.dense import products_library

MOST = 1 << 30
"""Products of more multiply-adds are left to oneDNN, which arranges large matrices better.

Below, what is left out of zeros weighs more.
"""

_OPERATION = "maze_runtime::native_product"
torch.library.define(
    _OPERATION, "(Tensor left, Tensor right, Tensor? bias) -> Tensor", tags=(torch.Tag.flexible_layout,)
)


def _by_torch(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    return left @ right if bias is None else torch.addmm(bias, left, right)


def _of_same_shape(left: Tensor, right: Tensor, _bias: Tensor | None) -> Tensor:
    return left.new_empty((left.shape[0], right.shape[1]))


torch.library.impl(_OPERATION, "CPU", _by_torch)
torch.library.register_fake(_OPERATION, _of_same_shape)
native_product = torch.ops.maze_runtime.native_product.default
"""left (M, K) right (K, N) + bias (N,) or None, float32 on the CPU: in compiled code by `products.cpp`."""


@cache
def native_products_shims() -> Shims:
    """What the compiler is told of `products.cpp`; empty where that cannot be built."""
    return shims_of(
        products_library(),
        {native_product: "AtenTensorHandle, AtenTensorHandle, AtenTensorHandle*, AtenTensorHandle*"},
    )
