"""Products of matrices on processors for which torch's library of products knows only half of their width.

torch hands products to Intel's MKL, which uses vectors of 512 bits on Intel's processors alone. AMD's from Zen 5 on
have them in full: oneDNN, which torch brings along for convolutions, multiplies 256 × 256 numbers by as many in 150
instead of 320 microseconds there. A call of it costs 15 microseconds more, so small products are left to MKL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from maze_runtime.models.processor import USES_ONEDNN

FEWEST = 1 << 21
"""Products of fewer multiply-adds, rows × inputs × units, are left to MKL."""

# An operation of its own, since recordings take none with lists of numbers
_OPERATION = "maze_runtime::linear"
torch.library.define(_OPERATION, "(Tensor x, Tensor weight, Tensor? bias) -> Tensor")


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    # Matrices may lie in any way, but a bias is read as if its numbers were neighbours
    bias = None if bias is None else bias.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return product


def _of_same_shape(x: Tensor, weight: Tensor, _bias: Tensor | None) -> Tensor:
    return x.new_empty((x.shape[0], weight.shape[0]))


torch.library.impl(_OPERATION, "CPU", _by_onednn)
torch.library.register_fake(_OPERATION, _of_same_shape)
wide_linear: Callable[[Tensor, Tensor, Tensor | None], Tensor] = torch.ops.maze_runtime.linear.default
"""x Wᵀ + b by oneDNN, of (B, I), (O, I) and (O,) or None: float32 on the CPU, in any layout; without a gradient."""


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return wide_linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            _differentiable(gradient, weight.t(), None) if of_x else None,
            _of_weight(gradient, x) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def _of_weight(gradient: Tensor, x: Tensor) -> Tensor:
    """∂L/∂W (O, I), laid out the other way round where it is narrow, which takes half as long."""
    if x.shape[1] < gradient.shape[1]:
        return _differentiable(x.t(), gradient.t(), None).t()
    return _differentiable(gradient.t(), x.t(), None)


def _differentiable(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]
    return wide_linear(x, weight, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b, (..., O), as `torch.nn.functional.linear` has it.

    Args:
        x: (..., I).
        weight: W (O, I).
        bias: b (O,), or None.
    """
    if torch.compiler.is_compiling() or not _pays(x, weight):
        return functional.linear(x, weight, bias)
    return _differentiable(x, weight, bias)


def _pays(x: Tensor, weight: Tensor) -> bool:
    return (
        USES_ONEDNN
        and x.dim() == 2
        and x.shape[1] == weight.shape[1]  # else torch says what does not fit
        and x.numel() * weight.shape[0] >= FEWEST
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )
