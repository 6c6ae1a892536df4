"""Adam on flat parameters: in place for eager updates, and as a pure part of a compiled update."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.processor import HAS_VECTORS, NATIVE_TAKES_LARGE, USES_ONEDNN

BETA1, BETA2 = 0.9, 0.999
_TINY = 1e-6
_PIECE = 8192
"""Parameters that a GPU's fused kernel gives to one of its processors; by itself it takes 65 536."""
_NOTHING: list[Tensor] = []
_NUMBERS = itertools.count()
_LOG_BETAS = math.log(BETA1), math.log(BETA2)

AdamState = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""(theta, first, second, n_steps, rate, corrections)."""

AdamUpdate = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""`(theta, first, second, n_steps, rate, corrections, gradient) -> norm ()`; writes to the first four in place."""


def cut_factor(norm: float, limit: float) -> float:
    """What a gradient is multiplied by so that its norm is `limit` at most.

    As tensors of one float32 number have it, bit for bit: three operations of torch on these take twenty times as long.
    """
    factor = np.float32(1.0) / (np.float32(norm) + np.float32(_TINY)) * np.float32(limit)
    return min(float(factor), 1.0)


class FlatAdam:
    """Moments and step count of Adam for one flat parameter vector.

    A gradient with NaN or infinity leaves weights and moments as they were: nothing non-finite ever reaches a weight.

    Args:
        flat: parameters and their gradients.
        epsilon: of Adam.
        max_grad_norm: the gradient is cut to this norm; 0: off.

    Source: Kingma and Ba 2015, algorithm 1.
    """

    def __init__(self, flat: FlatParameters, *, epsilon: float, max_grad_norm: float = 0.0) -> None:
        self.flat = flat
        self.first_moment = torch.zeros_like(flat.data)
        self.second_moment = torch.zeros_like(flat.data)
        self.n_steps = torch.zeros((), device=flat.data.device)
        self.learning_rate = torch.zeros((), device=flat.data.device)
        self._corrections = torch.ones(2, device=flat.data.device)
        self._epsilon = epsilon
        self._max_grad_norm = max_grad_norm

    def step(self) -> Tensor:
        """One step along `flat.grad`, which is cut in place; returns its norm before that, ()."""
        norm: Tensor = torch.linalg.vector_norm(self.flat.grad)
        limit = self._max_grad_norm
        if self.flat.data.is_cuda:
            if limit > 0.0:
                self.flat.grad.mul_((limit / (norm + _TINY)).clamp(max=1.0))
            self._step(norm)
        elif math.isfinite(number := norm.item()):
            # Far enough below the limit that the factor, rounded, is 1
            if 0.0 < 0.99 * limit < number + _TINY:
                self.flat.grad.mul_(cut_factor(number, limit))
            self._step(norm)
        return norm.detach()

    def _step(self, norm: Tensor) -> None:
        lists = [self.flat.data], [self.flat.grad], [self.first_moment], [self.second_moment], _NOTHING, [self.n_steps]
        constants: dict[str, Any] = {"beta1": BETA1, "beta2": BETA2, "eps": self._epsilon, "weight_decay": 0.0}
        constants |= {"amsgrad": False, "maximize": False}
        # What `adam` comes down to; sorting its arguments by device first takes 50 microseconds. It is no public name
        # of torch, so a release may lack it.
        fused = getattr(torch, "_fused_adam_", None)
        if self.flat.data.is_cuda:
            not_finite = (~norm.isfinite()).float()
            if fused is None:
                adam(*lists, fused=True, found_inf=not_finite, lr=self.learning_rate, **constants)
                return
            given = (self.flat.data, self.flat.grad, self.first_moment, self.second_moment)
            pieces = [torch.split(tensor, _PIECE) for tensor in given]
            self.n_steps.add_(1.0)
            steps = [self.n_steps] * len(pieces[0])
            fused(*pieces, _NOTHING, steps, found_inf=not_finite, lr=self.learning_rate, **constants)
            self.n_steps.sub_(not_finite)
            return
        if fused is None:
            adam(*lists, foreach=False, lr=self.learning_rate, **constants)
            return
        self.n_steps.add_(1.0)
        fused(*lists, lr=self.learning_rate, **constants)

    def tensors(self) -> AdamState:
        """What `functional` reads and writes in the next step: (theta, first, second, n_steps, rate, corrections).

        The bias corrections (2,) are 1 - b1^t and 1 - b2^t. Inside a compiled function the two powers would be part of
        the loop over the parameters, taken anew for every eight of them: a tenth of a whole SAC update.
        """
        if self.flat.data.is_cuda:  # nothing is read back from the device
            corrections = torch.stack([(log_beta * (self.n_steps + 1.0)).expm1().neg() for log_beta in _LOG_BETAS])
        else:
            step, corrections = self.n_steps.item() + 1.0, self._corrections
            # A tensor that is made anew takes ten times as long as its numbers
            corrections.numpy()[:] = [-math.expm1(log_beta * step) for log_beta in _LOG_BETAS]
        return self.flat.data, self.first_moment, self.second_moment, self.n_steps, self.learning_rate, corrections

    def functional(self) -> AdamUpdate:
        """The same step as a function of tensors alone, for use inside a compiled function."""
        epsilon, max_grad_norm = self._epsilon, self._max_grad_norm

        def update(
            theta: Tensor,
            first: Tensor,
            second: Tensor,
            n_steps: Tensor,
            rate: Tensor,
            corrections: Tensor,
            gradient: Tensor,
        ) -> Tensor:
            norm: Tensor = torch.linalg.vector_norm(gradient)
            finite = norm.isfinite()
            if max_grad_norm > 0.0:
                gradient = gradient * (max_grad_norm / (norm + _TINY)).clamp(max=1.0)
            # m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²; theta -= lr m̂ / (sqrt(v̂) + eps)
            new_first = first.lerp(gradient, 1.0 - BETA1)
            new_second = BETA2 * second + (1.0 - BETA2) * gradient.square()
            change = rate / corrections[0] * new_first / (new_second.sqrt() / corrections[1].sqrt() + epsilon)
            theta.copy_(torch.where(finite, theta - change, theta))
            first.copy_(torch.where(finite, new_first, first))
            second.copy_(torch.where(finite, new_second, second))
            n_steps.add_(finite)
            return norm

        return update

    def state_dict(self) -> dict[str, Any]:
        """Moments and step count, copies."""
        return {
            "first_moment": self.first_moment.clone(),
            "second_moment": self.second_moment.clone(),
            "n_steps": self.n_steps.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.first_moment.copy_(state["first_moment"])
        self.second_moment.copy_(state["second_moment"])
        self.n_steps.copy_(torch.as_tensor(state["n_steps"]))


def compile_update(update: Callable[..., Any], flat: FlatParameters) -> Callable[..., Any]:
    """Compile an update of `flat` whose closure is private to its caller and never changes.

    Only tensors are checked at each call: the other guards cost a fifth of a small network's step. They are also what
    tells two closures of one function apart in the compiler's cache, so each call here compiles a code object of its
    own. It has a new name, too: by name, file and line the compiler remembers which sizes a function met, and after
    another closure with others it would leave sizes open. Releases without the filter compile with all guards. On the
    CPU the code between the kernels is compiled too.

    The compiler is loaded by the first call, so that `BoundedCompilation` finds out what it lacks.
    """
    compiled = cache(partial(_compiled, update, flat))

    def run(*inputs: Any) -> Any:
        return compiled()(*inputs)

    return run


def _compiled(update: Callable[..., Any], flat: FlatParameters) -> Callable[..., Any]:
    device = flat.data.device
    options: dict[str, Any] = {"cpp_wrapper": True} if device.type == "cpu" else {}
    if device.type == "cpu" and HAS_VECTORS:
        has_filters = any(parameter.dim() == 4 for parameter in flat.parameters)
        options |= _native_options(has_filters=has_filters)
    guard_filter = getattr(torch.compiler, "keep_tensor_guards_unsafe", None)
    if guard_filter is not None:
        options["guard_filter_fn"] = guard_filter
    code = update.__code__.replace(co_name=f"{update.__code__.co_name}_{next(_NUMBERS)}")
    own = FunctionType(code, update.__globals__, update.__name__, update.__defaults__, update.__closure__)
    return torch.compile(own, fullgraph=True, options=options)


def _native_options(*, has_filters: bool) -> dict[str, Any]:
    # Here, because this loads the compiler, which takes seconds
    from maze_runtime.native.by_name import shims_option
    from maze_runtime.native.convolutions import native_convolutions_shims
    from maze_runtime.native.products import native_products_shims
    from maze_runtime.training.compiled_convolutions import NativeConvolutions
    from maze_runtime.training.compiled_products import WideProducts
    from maze_runtime.training.graph_nodes import InTurn

    of_products = native_products_shims()
    of_convolutions = native_convolutions_shims() if has_filters and NATIVE_TAKES_LARGE else {}
    products = WideProducts(native=bool(of_products), large=NATIVE_TAKES_LARGE, onednn=USES_ONEDNN)
    passes = InTurn([products, NativeConvolutions()] if of_convolutions else [products])
    # What built the products knows these vectors. Torch would load libraries in processes of their own to find that
    # out, for a second of every run. Not where the processor has tiles, too, which only newer compilers know.
    has_tiles = getattr(torch.cpu, "_is_amx_tile_supported", lambda: True)()
    known = {"cpp.vec_isa_ok": True} if of_products and not has_tiles else {}
    return {**shims_option(of_products | of_convolutions), **known, "post_grad_custom_pre_pass": passes}
