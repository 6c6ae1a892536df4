"""A gradient step with any optimiser of `torch.optim`, or one of the user's, in place of Adam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maze_bc.data import OWNER
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.training.gradient_norms import GradientNorms
from maze_runtime.training.gradient_step import LossFunction
from maze_runtime.training.optimizer_options import OptimizerOptions
from maze_runtime.training.subnormal_numbers import subnormal_numbers_are_zero
from maze_runtime.training.torch_optimizer import load_optimizer_state, optimizer_state, torch_optimizer


class OptimizerStep:
    """Takes gradient steps as `GradientStep` does, eagerly.

    A gradient with NaN or infinity leaves weights and the optimiser's state as they were and is reported in the norm.

    Args:
        model: trained; its parameters become views of one buffer, which the optimiser updates in place.
        loss: `(model, *inputs) -> (loss, statistics)`.
        options: which optimiser.
        max_grad_norm: the gradient of all parameters together is cut to it; 0: off.
        norms_of: parts of the parameters by the names of their gradient norms, which every step returns as well.

    Attributes:
        flat: the parameters.
        norms: the names of what a step returns behind the loss function's statistics.

    Raises:
        RequestError: there is no such optimiser, it refuses its arguments, or it asks for the loss more than once.
    """

    def __init__(
        self,
        model: Any,
        loss: LossFunction,
        options: OptimizerOptions,
        *,
        max_grad_norm: float,
        norms_of: Mapping[str, Iterable[nn.Parameter]],
    ) -> None:
        self.flat = FlatParameters(model)
        self._part_norms = GradientNorms(self.flat, norms_of)
        self.norms = ("grad_norm", *self._part_norms.names)
        self._model, self._loss = model, loss
        self._max_grad_norm = max_grad_norm
        self._optimizer = torch_optimizer(options, self.flat.parameters, OWNER)

    @subnormal_numbers_are_zero()
    def __call__(self, learning_rate: float, *inputs: Any) -> Tensor:
        """Take one step; returns the loss function's statistics, the gradient norm and those of its parts."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self.flat.grad.zero_()
        loss, statistics = self._loss(self._model, *inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        norm: Tensor = torch.linalg.vector_norm(self.flat.grad)
        norms = torch.stack([norm, *self._part_norms()])
        if bool(norm.isfinite()):
            if self._max_grad_norm > 0.0:
                self.flat.grad.mul_((self._max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
            self._optimizer.step()
        return torch.cat([statistics, norms])

    def phase(self) -> str:
        """What the next step will spend its time on."""
        return "update"

    def take_compile_seconds(self) -> float:
        """Nothing is compiled."""
        return 0.0

    def state_dict(self) -> dict[str, Any]:
        """The optimiser's state of each parameter, copies."""
        return optimizer_state(self._optimizer)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        load_optimizer_state(self._optimizer, state)
