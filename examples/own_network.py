"""Policy and critic networks of the `custom` model. Nothing here is derived from a class of Maze."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Policy(nn.Module):
    """Logits of every action head; what the critic shall share is given besides.

    Args:
        obs_shapes: observation to the shape of one sample.
        action_logits_shapes: action head to the shape of its logits.
        units: of the hidden layer.
    """

    def __init__(
        self, *, obs_shapes: dict[str, tuple[int]], action_logits_shapes: dict[str, tuple[int]], units: int = 32
    ) -> None:
        super().__init__()
        n_inputs = sum(size for (size,) in obs_shapes.values())
        self.body = nn.Sequential(nn.Linear(n_inputs, units), nn.Tanh())
        self.heads = nn.ModuleDict({head: nn.Linear(units, n) for head, (n,) in action_logits_shapes.items()})

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations (B, ...) to logits (B, L) by head, and the latent (B, units)."""
        latent = self.body(torch.cat(list(observation.values()), dim=-1))
        return {**{head: layer(latent) for head, layer in self.heads.items()}, "latent": latent}


class Critic(nn.Module):
    """The value from what the policy gave besides its logits.

    Args:
        obs_shapes: observation to the shape of one sample, what the policy shares among them.
    """

    def __init__(self, *, obs_shapes: dict[str, tuple[int]]) -> None:
        super().__init__()
        self.value = nn.Linear(obs_shapes["latent"][0], 1)

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The value of each state, (B, 1)."""
        return {"value": self.value(observation["latent"])}
