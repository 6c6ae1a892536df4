"""All trained parameters of a module in one flat buffer.

One buffer makes the optimiser step one kernel, the gradient norm one reduction, and the weights one message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def train_policy_only(model: Any) -> None:
    """Leave the critics of an actor-critic out of training: their parameters need no gradient any more."""
    policy = set(model.policy_state_dict())
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in policy)


class FlatParameters:
    """Turns a module's parameters into views of one flat tensor; gradients likewise.

    Args:
        module: whose parameters they are.
        parameters: those of it that are taken; None: all that need a gradient.

    Attributes:
        data: (P,) all parameters in the order of `module.parameters()`.
        grad: (P,) their gradients; backward accumulates into it.

    Raises:
        ValueError: parameters of different dtype or device, or none at all.
    """

    def __init__(self, module: nn.Module, parameters: Iterable[nn.Parameter] | None = None) -> None:
        taken = None if parameters is None else {id(parameter) for parameter in parameters}
        parameters = [
            parameter
            for parameter in module.parameters()
            if parameter.requires_grad and (taken is None or id(parameter) in taken)
        ]
        kinds = {(parameter.dtype, parameter.device) for parameter in parameters}
        if len(kinds) != 1:
            raise ValueError(f"need parameters of one dtype on one device, got {sorted(map(str, kinds))}")
        self.data = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.grad = torch.zeros_like(self.data)
        self.parameters = parameters
        self._slices = list(_slices(parameters))
        for parameter, data, grad in zip(parameters, self.split(self.data), self.split(self.grad), strict=True):
            parameter.data = data
            parameter.grad = grad

    def split(self, flat: Tensor) -> list[Tensor]:
        """Views of `flat` (P,) in the shapes of the parameters."""
        return [flat[part].view(parameter.shape) for part, parameter in zip(self._slices, self.parameters, strict=True)]

    def slices_of(self, parameters: Iterable[nn.Parameter]) -> list[slice]:
        """Where those of `parameters` that are taken stand in the flat tensor, as few slices as there can be."""
        wanted = {id(parameter) for parameter in parameters}
        slices: list[slice] = []
        for part, parameter in zip(self._slices, self.parameters, strict=True):
            if id(parameter) in wanted:
                follows = bool(slices) and slices[-1].stop == part.start
                slices.append(slice(slices.pop().start, part.stop) if follows else part)
        return slices


def _slices(parameters: Iterable[Tensor]) -> Iterable[slice]:
    start = 0
    for parameter in parameters:
        yield slice(start, start + parameter.numel())
        start += parameter.numel()
