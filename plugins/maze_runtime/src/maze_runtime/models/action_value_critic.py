"""Twin Q networks of one policy key: what trainers that learn action values ask of a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.observation_encoding import ObservationEncoder

TensorDict = dict[str, Tensor]

TAKEN_ACTION = "taken_action"
"""Name under which a Q network reads the encoded action, beside the observation."""


class ActionValueCritic(nn.Module):
    """Independent networks that estimate the same action values.

    Where every head chooses (`action_encoder.is_enumerable`) a network gives one number a choice, Q_k(s), and the
    value of an action is the sum over its choices; else it reads the action and gives one number, Q(s, a).

    Args:
        encoder: of observations.
        action_encoder: of actions.
        networks: each maps encoded observations (and `TAKEN_ACTION`, (B, A)) to {"value": (B, K) or (B, 1)}.

    Attributes:
        shapes: of what the networks may read.
    """

    def __init__(
        self, encoder: ObservationEncoder, action_encoder: ActionEncoder, networks: Sequence[nn.Module]
    ) -> None:
        super().__init__()
        self.action_encoder = action_encoder
        self._encoder = encoder
        self.networks = nn.ModuleList(networks)
        self.shapes = {**encoder.shapes, TAKEN_ACTION: (action_encoder.size,)}

    def forward(self, observation: TensorDict, encoded_action: Tensor | None = None) -> Tensor:
        """Action values: (2, B, K) of every choice, or (2, B) of the encoded actions (B, A)."""
        inputs = self._encoder.encode(observation)
        if encoded_action is None:
            return torch.stack([network(inputs)["value"] for network in self.networks])
        inputs = {**inputs, TAKEN_ACTION: encoded_action}
        return torch.stack([network(inputs)["value"].squeeze(-1) for network in self.networks])
