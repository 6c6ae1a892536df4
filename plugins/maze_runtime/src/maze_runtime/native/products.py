"""Products of matrices in C++, for compiled updates on processors with vectors of 512 bits.

A call of MKL or oneDNN takes as long as a product of layers of 64 units, and MKL computes at half of the width of AMD's
newer processors; see `maze_runtime.models.wide_products`. At such sizes `products.cpp` takes three quarters of MKL's
time on Intel's processors and a third on those, where it takes no more than oneDNN's on one thread at others, too; on
Zen 4 it takes 0.6 to 0.96 of MKL's.
Compiled code calls it without Python in between.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config

from maze_runtime.native.dense import products_library
from maze_runtime.native.library import build_library

SHIM = "int32_t aoti_torch_cpu_native_product(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle*, AtenTensorHandle*)"
"""What the function is in compiled code."""

MOST = 1 << 28
"""Products of more multiply-adds are left to oneDNN, which arranges large matrices better."""

_FIRST_RELEASE = "2.13"
"""Of torch, with which this was tried; releases before may know the option for code that is compiled ahead alone."""

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


class _Shims(dict[Any, list[str]]):
    """Operations and their functions, which the compiler's cache on disk writes down without failing at operations."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shims, (), {"functions": [*self.values()]}

    def __deepcopy__(self, _memo: Any) -> _Shims:
        return self


@cache
def native_products_option() -> dict[str, Any]:
    """The compiler's option by which it finds `products.cpp`; empty where that cannot be built."""
    if torch.__version__ < _FIRST_RELEASE or not hasattr(config.aot_inductor, "custom_ops_to_c_shims"):
        return {}
    if not _is_found_by_name():
        return {}
    return {"aot_inductor.custom_ops_to_c_shims": _Shims({native_product: [SHIM]})}


def _is_found_by_name() -> bool:
    """Give compiled code the function; False where there is none."""
    library = products_library()
    named = None if library is None else build_library(Path(__file__).with_name("by_name.cpp"), by_name=True)
    if library is None or named is None:
        return False
    function = ctypes.cast(library.native_product, ctypes.c_void_p)
    ctypes.c_void_p.in_dll(named, "native_product_at").value = function.value
    return True
