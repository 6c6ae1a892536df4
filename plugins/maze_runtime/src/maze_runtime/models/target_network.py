"""A copy of a network that follows it slowly, so that values do not chase themselves."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from maze_runtime.models.flat_parameters import FlatParameters

NetworkT = TypeVar("NetworkT", bound=nn.Module)


class TargetNetwork(Generic[NetworkT]):
    """Values for targets. Source: Mnih et al. 2015; averaged: Lillicrap et al. 2016.

    Args:
        network: that is trained; the copy is made now, with its weights and its device.
        flats: parameters of it that lie in buffers by now; those of the copy will, too, so that each buffer follows in
            one call.

    Attributes:
        network: the copy; it needs no gradients.
        flats: the buffers that parameters of the copy lie in, one of each of the given ones, (P,) each.
    """

    def __init__(self, network: NetworkT, flats: Sequence[FlatParameters] = ()) -> None:
        self.network: NetworkT = copy.deepcopy(network).requires_grad_(False)
        own = dict(zip(map(id, network.parameters()), self.network.parameters(), strict=True))
        self._followed = [flat.data for flat in flats]
        self.flats = [flat.data.clone() for flat in flats]
        for flat, data in zip(flats, self.flats, strict=True):
            for parameter, view in zip(flat.parameters, flat.split(data), strict=True):
                own.pop(id(parameter)).data = view
        rest = {id(parameter): parameter for parameter in network.parameters()}
        self._followed += [rest[name] for name in own]
        self._following = [*self.flats, *own.values()]
        # Collecting the parameters of a network anew takes longer than moving those of a small one.
        modules = zip(self.network.modules(), network.modules(), strict=True)
        self._buffers = [(copied._buffers, trained._buffers) for copied, trained in modules if trained._buffers]

    @torch.no_grad()
    def follow(self, tau: float = 1.0) -> None:
        """θ' ← (1 − τ) θ' + τ θ; with τ = 1 the weights are copied."""
        torch._foreach_lerp_(self._following, self._followed, tau)
        self.follow_buffers()

    @torch.no_grad()
    def follow_buffers(self) -> None:
        """Copy what is no parameter, such as running statistics; for whoever moves the weights elsewhere."""
        for copied, trained in self._buffers:
            for name, buffer in trained.items():
                if buffer is not None:
                    own = copied[name]
                    assert own is not None
                    own.copy_(buffer)

    def state_dict(self) -> dict[str, Any]:
        """The weights of the copy, copied."""
        return {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict({name: torch.as_tensor(tensor) for name, tensor in state.items()})
