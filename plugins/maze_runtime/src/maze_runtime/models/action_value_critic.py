"""Twin Q networks of one policy key: what trainers that learn action values ask of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.errors import RequestError, SpaceError
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.tensor_dict import TensorDict

Shape = tuple[int, ...]

TAKEN_ACTION = "taken_action"
"""Name under which a Q network reads the encoded action, beside the observation."""


def require_action_values(model: Any, owner: str) -> None:
    """For trainers that learn action values.

    Raises:
        RequestError: the model has no Q networks.
    """
    if not hasattr(model, "action_value_critic"):
        raise RequestError(
            "the model has no Q networks",
            received=type(model).__name__,
            expected='a model that honours critic = "state-action", such as auto or concat',
            owner=owner,
        )


def with_taken_action(shapes: Mapping[str, Shape], n_columns: int) -> dict[str, Shape]:
    """The inputs of a Q network that reads the action: encoded observations (name to shape) and the encoded action.

    Raises:
        SpaceError: an observation is called as the action is.
    """
    if TAKEN_ACTION in shapes:
        raise SpaceError(
            f"an observation is called {TAKEN_ACTION!r}, as Q networks call the action that they value",
            received=", ".join(map(repr, shapes)),
            expected="another name",
            owner="maze-runtime",
            help="rename it in the environment, or in a wrapper around it",
        )
    return {**shapes, TAKEN_ACTION: (n_columns,)}


@same_operations
class ActionValueCritic(nn.Module):
    """Networks that estimate the same action values, independent of each other behind what they share.

    Where every head chooses (`action_encoder.is_enumerable`) a network gives one number a choice, Q_k(s), and the
    value of an action is the sum over its choices; else it reads the action and gives one number, Q(s, a).

    Args:
        encoder: of observations.
        action_encoder: of actions.
        networks: each maps encoded observations (and `TAKEN_ACTION`, (B, A)) to {"value": (B, K) or (B, 1)}.
        shared: encoded observations to features that all of them read, too, trained with them; None: there are none.

    Attributes:
        shapes: of what the networks may read.
    """

    def __init__(
        self,
        encoder: ObservationEncoder,
        action_encoder: ActionEncoder,
        networks: Sequence[nn.Module],
        shared: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.action_encoder = action_encoder
        self._encoder = encoder
        self.networks = nn.ModuleList(networks)
        self.shared = shared
        self.shapes = {**encoder.shapes, TAKEN_ACTION: (action_encoder.size,)}

    def forward(self, observation: TensorDict, encoded_action: Tensor | None = None) -> Tensor:
        """Action values: (2, B, K) of every choice, or (2, B) of the encoded actions (B, A)."""
        inputs = self._read(observation)
        if encoded_action is None:
            return torch.stack([network(inputs)["value"] for network in self.networks])
        inputs = {**inputs, TAKEN_ACTION: encoded_action}
        return torch.stack([network(inputs)["value"].squeeze(-1) for network in self.networks])

    def first(self, observation: TensorDict, encoded_action: Tensor) -> Tensor:
        """Q_1(s, a) of the first network alone, (B,), for a policy that climbs it; the others are not evaluated."""
        inputs = {**self._read(observation), TAKEN_ACTION: encoded_action}
        value: Tensor = self.networks[0](inputs)["value"]
        return value.squeeze(-1)

    def _read(self, observation: TensorDict) -> TensorDict:
        """Encoded observations and the features that all networks read."""
        encoded = self._encoder.encode(observation)
        return encoded if self.shared is None else {**encoded, **self.shared(encoded)}
