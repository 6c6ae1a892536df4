"""One optimiser step on flat parameters, eager or compiled: loss, backward, non-finite guard, clipping, Adam."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.optim.adam import adam

from maze_kernel.models.flat_parameters import FlatParameters

BETA1, BETA2 = 0.9, 0.999

LossFunction = Callable[..., tuple[Tensor, Tensor]]
"""`(model, *tensors) -> (loss (), statistics (S,))`."""


class _Loss(nn.Module):
    """A loss as a module, so that `functional_call` can swap the parameters of the model in it."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        return self._loss(self.model, *inputs)


class GradientStep:
    """Adam on all parameters of a model as one flat vector.

    A gradient with NaN or infinity leaves weights and moments as they were and is reported in the norm: nothing
    non-finite ever reaches a weight.

    Args:
        model: trained; its parameters become views of one buffer.
        loss: `(model, *inputs) -> (loss, statistics)`.
        epsilon: of Adam.
        max_grad_norm: 0: off.
        compiled: compile everything into one function; the first call takes a while.

    Source: Kingma and Ba 2015, algorithm 1.
    """

    def __init__(
        self, model: nn.Module, loss: LossFunction, *, epsilon: float, max_grad_norm: float, compiled: bool
    ) -> None:
        self.flat = FlatParameters(model)
        self.first_moment = torch.zeros_like(self.flat.data)
        self.second_moment = torch.zeros_like(self.flat.data)
        self.n_steps = torch.zeros((), device=self.flat.data.device)
        self._compile_seconds = 0.0
        self._is_compiled = not compiled
        self._epsilon = epsilon
        self._max_grad_norm = max_grad_norm
        self._loss = loss
        self._model = model
        self._learning_rate = torch.zeros((), device=self.flat.data.device)
        self._run = self._compiled_step() if compiled else self._eager_step

    def __call__(self, learning_rate: float, *inputs: Any) -> Tensor:
        """Take one step; returns the loss function's statistics with the gradient norm appended, (S + 1,)."""
        self._learning_rate.fill_(learning_rate)
        return self._run(*inputs)

    def _eager_step(self, *inputs: Any) -> Tensor:
        self.flat.grad.zero_()
        loss, statistics = self._loss(self._model, *inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(self.flat.grad)
        if self.flat.data.is_cuda or bool(norm.isfinite()):
            self._adam(norm)
        return torch.cat([statistics, norm.detach()[None]])

    def _adam(self, norm: Tensor) -> None:
        if self._max_grad_norm > 0.0:
            self.flat.grad.mul_((self._max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        adam(
            [self.flat.data],
            [self.flat.grad],
            [self.first_moment],
            [self.second_moment],
            [],
            [self.n_steps],
            fused=True,
            found_inf=(~norm.isfinite()).float() if self.flat.data.is_cuda else None,
            lr=self._learning_rate,
            beta1=BETA1,
            beta2=BETA2,
            eps=self._epsilon,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )

    def _compiled_step(self) -> Callable[..., Tensor]:
        step = torch.compile(_functional_step(self), fullgraph=True, options=_compile_options())
        state = (self.flat.data, self.first_moment, self.second_moment, self.n_steps, self._learning_rate)

        def run(*inputs: Any) -> Tensor:
            if self._is_compiled:
                return step(*state, *inputs)
            start = time.perf_counter()
            result = step(*state, *inputs)
            self._compile_seconds += time.perf_counter() - start
            self._is_compiled = True
            return result

        return run

    def phase(self) -> str:
        """What the next step will spend its time on: "compile" or "update"."""
        return "update" if self._is_compiled else "compile"

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        seconds, self._compile_seconds = self._compile_seconds, 0.0
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """Moments and step count, copies."""
        return {
            "first_moment": self.first_moment.clone(),
            "second_moment": self.second_moment.clone(),
            "n_steps": self.n_steps.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.first_moment.copy_(state["first_moment"])
        self.second_moment.copy_(state["second_moment"])
        self.n_steps.copy_(torch.as_tensor(state["n_steps"]))


def _compile_options() -> dict[str, Any]:
    """Check only tensors at each call: all else that the step reads is private to it and never changes.

    The other guards cost a fifth of a small network's step. Releases without the filter compile with all guards.
    """
    guard_filter = getattr(torch.compiler, "keep_tensor_guards_unsafe", None)
    return {} if guard_filter is None else {"guard_filter_fn": guard_filter}


def _functional_step(step: GradientStep) -> Callable[..., Tensor]:
    module = _Loss(step._model, step._loss)
    names = [f"model.{name}" for name, parameter in step._model.named_parameters() if parameter.requires_grad]
    split, epsilon, max_grad_norm = step.flat.split, step._epsilon, step._max_grad_norm

    def run(theta: Tensor, first: Tensor, second: Tensor, n_steps: Tensor, rate: Tensor, *inputs: Any) -> Tensor:
        def loss(parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            result: tuple[Tensor, Tensor] = functional_call(module, dict(zip(names, parameters, strict=True)), inputs)
            return result

        gradients, (_, statistics) = grad_and_value(loss, has_aux=True)(tuple(split(theta)))
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        norm = torch.linalg.vector_norm(gradient)
        finite = norm.isfinite()
        if max_grad_norm > 0.0:
            gradient = gradient * (max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        count = n_steps + finite
        # m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²; theta -= lr m̂ / (sqrt(v̂) + eps)
        new_first = first.lerp(gradient, 1.0 - BETA1)
        new_second = BETA2 * second + (1.0 - BETA2) * gradient.square()
        scale = (1.0 - BETA2**count).sqrt()
        update = rate / (1.0 - BETA1**count) * new_first / (new_second.sqrt() / scale + epsilon)
        theta.copy_(torch.where(finite, theta - update, theta))
        first.copy_(torch.where(finite, new_first, first))
        second.copy_(torch.where(finite, new_second, second))
        n_steps.copy_(count)
        return torch.cat([statistics, norm[None]])

    return run
