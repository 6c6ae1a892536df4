"""Norms of parts of a gradient: of policies and critics apart, and of each policy key where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maze_runtime.models.flat_parameters import FlatParameters


class GradientNorms:
    """Norms of parts of one flat gradient.

    Args:
        flat: the parameters.
        parts: name to some of them; a part without any is left out.

    Attributes:
        names: of the parts, in the order of the norms.
    """

    def __init__(self, flat: FlatParameters, parts: Mapping[str, Iterable[nn.Parameter]]) -> None:
        found = {name: flat.slices_of(own) for name, own in parts.items()}
        self._slices = [slices for slices in found.values() if slices]
        # Views, because slicing takes as long as the norm of a small network
        self._flat_grad = self._parts_of(flat.grad)
        self.names = tuple(name for name, slices in found.items() if slices)

    def __call__(self, gradient: Tensor | None = None) -> list[Tensor]:
        """The norm of each part, () each, of a gradient (P,) or of the one in `flat`; before anything is cut."""
        return [_norm(pieces) for pieces in (self._flat_grad if gradient is None else self._parts_of(gradient))]

    def named(self, gradient: Tensor) -> dict[str, float]:
        """The same by name."""
        return {name: float(norm) for name, norm in zip(self.names, self(gradient), strict=True)}

    def _parts_of(self, gradient: Tensor) -> list[list[Tensor]]:
        return [[gradient[part] for part in slices] for slices in self._slices]


def _norm(pieces: list[Tensor]) -> Tensor:
    norms: list[Tensor] = [torch.linalg.vector_norm(piece) for piece in pieces]
    whole: Tensor = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    return whole


def actor_critic_parts(model: Any) -> dict[str, list[nn.Parameter]]:
    """The parameters of policies and of critics, as "policy_grad_norm" and "critic_grad_norm" name their gradients.

    Layers that both share count with the policies. Where a model has networks of several policy keys and says whose
    they are (`GroupsParameters`), there is "policy_grad_norm/<key>" and "critic_grad_norm/<key>" for each, too.
    """
    policy = set(model.policy_state_dict())
    named = list(model.named_parameters())
    parts = {
        "policy_grad_norm": [parameter for name, parameter in named if name in policy],
        "critic_grad_norm": [parameter for name, parameter in named if name not in policy],
    }
    groups = model.parameters_by_key() if hasattr(model, "parameters_by_key") else {}
    for role, by_key in groups.items():
        if len(by_key) > 1:
            parts |= {f"{role}_grad_norm/{key}": own for key, own in by_key.items()}
    return parts
