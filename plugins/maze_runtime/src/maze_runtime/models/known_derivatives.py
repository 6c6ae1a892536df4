"""Functions with their derivatives written out: one operation for autograd, where it would take many small ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class KnownDerivatives(torch.autograd.Function):
    """An elementwise function of several tensors of one shape, whose `forward` gives its derivatives as well.

    A subclass defines `forward(*inputs)`, a static method of tensors and numbers. It returns the value and behind it
    ∂ value / ∂ input for the first inputs, all of one shape; the inputs after these get no gradient. `apply` returns
    the same. Since compiled code differentiates `forward` itself, it must be made of operations that autograd knows,
    and finite where these would take 0 · ∞ for a gradient. There are no second derivatives: taking them is an error.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep the derivatives."""
        _value, *partial = output
        ctx.n_constant = len(inputs) - len(partial)
        ctx.save_for_backward(*partial)
        ctx.mark_non_differentiable(*partial)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        """Gradient of the value times each derivative."""
        by_inputs = [None if gradient is None else gradient * partial for partial in ctx.saved_tensors]
        return (*by_inputs, *[None] * ctx.n_constant)
