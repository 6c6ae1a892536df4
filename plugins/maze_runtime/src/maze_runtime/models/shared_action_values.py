"""Twin Q networks that all policy keys of a structured environment share.

They read what whoever decides sees, and what others saw and did earlier in the same flat step: `Earlier` names these
entries beside the observation. What nobody saw or did yet is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.action_value_critic import TAKEN_ACTION, ActionValueCritic
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.tensor_dict import TensorDict


class Earlier:
    """Names of what shared Q networks find in an observation: (B, ...) each."""

    SEEN = "@seen"
    """(B, C) float32: 1 for every joined observation that somebody saw in this flat step, in their order."""

    @staticmethod
    def saw(name: str) -> str:
        """A joined observation, in the dtype of its space: the newest one of this flat step."""
        return f"@saw {name}"

    @staticmethod
    def did(policy_key: PolicyKey) -> str:
        """(B, A): the encoded action that a policy key took last in this flat step; zero where it took none."""
        return f"@did {policy_key}"


def joined_names(by_key: Mapping[PolicyKey, spaces.Dict]) -> dict[PolicyKey, dict[str, str]]:
    """Policy key to {own name: joined name}, which is `name@key`; with one policy key the own name.

    Keys may see different things under one name, so nothing is joined because its name is the same.
    """
    alone = len(by_key) == 1
    return {key: {name: name if alone else f"{name}@{key}" for name in own} for key, own in by_key.items()}


def joined_space(by_key: Mapping[PolicyKey, spaces.Dict]) -> dict[str, spaces.Space[Any]]:
    """The joined entries in their order."""
    names = joined_names(by_key)
    return {joined: by_key[key][name] for key, own in names.items() for name, joined in own.items()}


@attrs.frozen
class SharedLayout:
    """What shared Q networks read beside observations, and which of their outputs are whose.

    The vector `TAKEN_ACTION` says who decides, as a one-hot of the policy key, and holds an encoded action of each key:
    the one that is valued where its key decides and has numbers among its actions, else the key's last one in this flat
    step. A key whose heads all choose has an output for every choice; the others share the one behind those.

    Attributes:
        sizes: policy key to the size of its encoded action.
        outputs: policy key to its first output and their number.
        enumerable: the keys whose heads all choose.
    """

    sizes: Mapping[PolicyKey, int]
    outputs: Mapping[PolicyKey, tuple[int, int]]
    enumerable: frozenset[PolicyKey]

    @classmethod
    def of(cls, encoders: Mapping[PolicyKey, ActionEncoder]) -> SharedLayout:
        """The layout for these policy keys."""
        outputs, n_outputs = {}, 0
        for key, encoder in encoders.items():
            if encoder.is_enumerable:
                outputs[key] = n_outputs, encoder.n_choices
                n_outputs += encoder.n_choices
        enumerable = frozenset(outputs)
        outputs |= {key: (n_outputs, 1) for key in encoders if key not in enumerable}
        return cls({key: encoder.size for key, encoder in encoders.items()}, outputs, enumerable)

    @property
    def n_columns(self) -> int:
        """Size of `TAKEN_ACTION`."""
        return len(self.sizes) + sum(self.sizes.values())

    @property
    def n_outputs(self) -> int:
        """Numbers that a network gives."""
        return max(first + size for first, size in self.outputs.values())


@same_operations
class SharedActionValueCritic(ActionValueCritic):
    """The shared networks as one policy key sees them; their parameters are the model's, not this view's.

    Args:
        policy_key: whose view.
        columns: joined observation to its place in `Earlier.SEEN`; only those that networks read.
        encoder: of these observations, by joined name.
        action_encoder: of the key's actions.
        networks: of all keys; each maps encoded observations and `TAKEN_ACTION` to {"value": (B, outputs)}.
        layout: of actions and values.
    """

    def __init__(
        self,
        policy_key: PolicyKey,
        columns: Mapping[str, int],
        encoder: ObservationEncoder,
        action_encoder: ActionEncoder,
        networks: nn.ModuleList,
        layout: SharedLayout,
    ) -> None:
        nn.Module.__init__(self)
        self.shared = None
        self.action_encoder = action_encoder
        self.shapes = {**encoder.shapes, TAKEN_ACTION: (layout.n_columns,)}
        self._encoder = encoder
        self._columns = dict(columns)
        self._hidden = (networks,)  # in a tuple, because a module that is an attribute would be registered in each view
        self._layout = layout
        self._policy_key = policy_key

    @property
    def networks(self) -> nn.ModuleList:  # type: ignore[override]
        """The twins."""
        return self._hidden[0]

    def forward(self, observation: TensorDict, encoded_action: Tensor | None = None) -> Tensor:
        """Action values of the policy key: (2, B, K) of every choice, or (2, B) of its encoded actions (B, A).

        Args:
            observation: holds what `Earlier` names.
            encoded_action: where the key has numbers among its actions.
        """
        seen = observation[Earlier.SEEN]
        encoded = self._encoder.encode({name: observation[Earlier.saw(name)] for name in self._columns})
        inputs = {
            name: array * seen[:, self._columns[name]].reshape(-1, *(1,) * (array.dim() - 1))
            for name, array in encoded.items()
        }
        inputs[TAKEN_ACTION] = self._who_and_what(observation, encoded_action)
        values = torch.stack([network(inputs)["value"] for network in self.networks])
        start, size = self._layout.outputs[self._policy_key]
        return values[..., start] if encoded_action is not None else values[..., start : start + size]

    def _who_and_what(self, observation: TensorDict, encoded_action: Tensor | None) -> Tensor:
        sizes, own = self._layout.sizes, self._policy_key
        who = torch.zeros((len(observation[Earlier.SEEN]), len(sizes)), device=observation[Earlier.SEEN].device)
        who[:, list(sizes).index(own)] = 1.0
        actions = [
            encoded_action if key == own and encoded_action is not None else observation[Earlier.did(key)]
            for key in sizes
        ]
        return torch.cat([who, *actions], dim=-1)
