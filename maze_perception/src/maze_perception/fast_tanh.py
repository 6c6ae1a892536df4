"""The hyperbolic tangent of many float32 numbers on the CPU, for which torch can take six times as long as NumPy.

torch hands it to Intel's vector library: 43 microseconds for 256 × 64 numbers on an AMD EPYC, where NumPy takes 7. Of
the gradient step of two small networks of tanh units that was a quarter. That is with vectors of 512 bits; with shorter
ones NumPy gains nothing. NumPy's is off by at most 1.4 units in the last place, torch's by 0.6. In compiled code it is
written out, off by 1.7 at most and a third as dear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUMPY_IS_FASTER = torch.backends.cpu.get_cpu_capability() == "AVX512"
"""Elsewhere its numbers a second are torch's, and a call costs more."""

FEWEST = 4096
"""Fewer numbers are left to torch: calling NumPy would cost more than it saves."""

MOST_THREADS = 4
"""Where torch has more, it is left as many numbers as it divides among them; NumPy has one thread."""

_DIVIDED = 32_768
"""torch divides tensors of more numbers."""

_NEAR = 1.2
"""Where the two formulas of `written_out` meet."""

_ONE_FROM = 9.02
"""The tangent of as much, and of more, is one in float32."""

_is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)

torch.library.define("maze_perception::tanh_", "(Tensor(a!) x) -> Tensor(a!)")


def _in_numpy(x: Tensor) -> Tensor:
    array = x.detach().numpy()
    np.tanh(array, out=array)
    return x


torch.library.impl("maze_perception::tanh_", "CPU", _in_numpy)
_tanh_ = torch.ops.maze_perception.tanh_.default


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y: Tensor = _tanh_(x)
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        # ∂ tanh(x) / ∂ x = 1 − tanh²(x)
        return torch.ops.aten.tanh_backward(gradient, y)  # type: ignore[no-any-return]


def tanh_(x: Tensor) -> Tensor:
    """tanh(x) of a tensor of any shape, written over it; compiled code has a new one in its place."""
    if x.dtype != torch.float32 or x.device.type != "cpu" or _is_exporting():
        return torch.tanh_(x)
    if torch.compiler.is_compiling():
        return written_out(x)
    if type(x) is not Tensor or not _pays(x.numel()) or torch._C._are_functorch_transforms_active():
        return torch.tanh_(x)
    if x.requires_grad and torch.is_grad_enabled():
        return _Tanh.apply(x)  # type: ignore[no-untyped-call, no-any-return]
    return _tanh_(x)  # type: ignore[no-any-return]


def _pays(n: int) -> bool:
    """Whether NumPy is faster at so many numbers."""
    return NUMPY_IS_FASTER and n >= FEWEST and (n <= _DIVIDED or torch.get_num_threads() <= MOST_THREADS)


def written_out(x: Tensor) -> Tensor:
    """tanh(x) in operations that a compiler joins, with its first derivative 1 − tanh²(x); NaN where x is infinite.

    Source: Lambert's continued fraction, x / (1 + x² / (3 + x² / (5 + …))), broken off behind the sixth term near zero
    and, of half of x, behind the seventh beyond. Without an exponential, which compiled code calls a library for.
    """
    held = x.detach()
    size = held.abs().clamp_max(_ONE_FROM)
    square = size * size
    is_near = size < _NEAR
    # tanh |x| = |x| − rest / divisor
    near_rest = ((square + 189.0) * square + 3_465.0) * square * size
    near_divisor = ((square + 210.0) * square + 4_725.0) * square + 10_395.0
    # t = tanh(|x| / 2) = above / below, either taken 64 times. As 1 − tanh |x| = (1 − t)² / (1 + t²), what t is off by
    # fades with 1 − t
    above = (((0.5 * square + 756.0) * square + 138_600.0) * square + 4_324_320.0) * size
    below = ((28.0 * square + 12_600.0) * square + 997_920.0) * square + 8_648_640.0
    apart = below - above
    rest = torch.where(is_near, near_rest, apart * apart)
    divisor = torch.where(is_near, near_divisor, above * above + below * below)
    y = (torch.where(is_near, size, 1.0) - rest / divisor).copysign(held)
    # Adds nothing to the value: x is the same in both. It carries the derivative.
    return y + (1.0 - y * y) * (x - held)
