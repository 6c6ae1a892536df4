"""A copy of a network that follows it slowly, so that values do not chase themselves."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import nn

NetworkT = TypeVar("NetworkT", bound=nn.Module)


class TargetNetwork(Generic[NetworkT]):
    """Values for targets. Source: Mnih et al. 2015; averaged: Lillicrap et al. 2016.

    Args:
        network: that is trained; the copy is made now, with its weights and its device.

    Attributes:
        network: the copy; it needs no gradients.
    """

    def __init__(self, network: NetworkT) -> None:
        self._trained = network
        self.network: NetworkT = copy.deepcopy(network).requires_grad_(False)

    @torch.no_grad()
    def follow(self, tau: float = 1.0) -> None:
        """θ' ← (1 − τ) θ' + τ θ; with τ = 1 the weights are copied."""
        torch._foreach_lerp_(list(self.network.parameters()), list(self._trained.parameters()), tau)
        for copied, buffer in zip(self.network.buffers(), self._trained.buffers(), strict=True):
            copied.copy_(buffer)

    def state_dict(self) -> dict[str, Any]:
        """The weights of the copy, copied."""
        return {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict({name: torch.as_tensor(tensor) for name, tensor in state.items()})
