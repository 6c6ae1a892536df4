"""RLlib's module for SAC around a Maze model with twin Q networks.

RLlib's learner asks for parts by the names of its own networks, to give each an optimiser; here they are views of the
model's. It averages over actions that it samples, or over all choices of one Discrete head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import spaces
from ray.rllib.algorithms.sac import sac_learner as names
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI
from torch import Tensor, nn

from maze_rllib.distribution import split_logits
from maze_rllib.module import MazeModule
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.capabilities import SamplesWithLogProb
from maze_runtime.models.tensor_dict import TensorDict


class SoftActorCriticModule(MazeModule, QNetAPI, TargetNetworkAPI):  # type: ignore[misc,unused-ignore]
    """Policy and twins of one policy key with one head, a bounded Box or a Discrete.

    Source: Haarnoja et al. 2018b; Christodoulou 2019 for choices.
    """

    def setup(self) -> None:
        """Called by RLlib once the module is made."""
        super().setup()
        ((self._head, space),) = self.actor_critic.spaces.action[self.policy_key].spaces.items()
        self._chooses = isinstance(space, spaces.Discrete)
        critics = self.actor_critic.action_value_critic(self.policy_key)
        twins = {id(parameter) for parameter in critics.parameters()}
        policy = [parameter for parameter in self.actor_critic.parameters() if id(parameter) not in twins]
        first, second = critics.networks
        # In a dict and a tuple: registered twice, parameters would stand in the state twice.
        self._parts = ({"pi": _Parameters(policy), "qf": first, "qf_twin": second, "none": nn.Module()},)

    pi_encoder = property(lambda self: self._parts[0]["none"])
    pi = property(lambda self: self._parts[0]["pi"])
    qf_encoder = property(lambda self: self._parts[0]["none"])
    qf = property(lambda self: self._parts[0]["qf"])
    qf_twin_encoder = property(lambda self: self._parts[0]["none"])
    qf_twin = property(lambda self: self._parts[0]["qf_twin"])

    def make_target_networks(self) -> None:
        """A copy of the twins that follows."""
        self._target = make_target_network(self.actor_critic.action_value_critic(self.policy_key))

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """The twins and their copy."""
        return [(self.actor_critic.action_value_critic(self.policy_key), self._target)]

    def forward_target(self, batch: dict[str, Any], squeeze: bool = True) -> Tensor:
        """The lesser of the copy's two values, (B,) of an action or (B, A) of all."""
        return self._values(self._target, batch, Columns.OBS).amin(dim=0)

    def compute_q_values(self, batch: dict[str, Any], squeeze: bool = True) -> Tensor:
        """The lesser of the two values."""
        return self._values(self.actor_critic.action_value_critic(self.policy_key), batch, Columns.OBS).amin(dim=0)

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return self._of_choices(batch) if self._chooses else self._of_numbers(batch)

    def _of_choices(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Probabilities of all choices, and their values."""
        critics = self.actor_critic.action_value_critic(self.policy_key)
        first, second = critics(self.observation(batch))
        log_probs = self.joined_logits(batch).log_softmax(dim=-1)
        with torch.no_grad():
            following = self.joined_logits(batch, Columns.NEXT_OBS).log_softmax(dim=-1)
            target = self._target(self.observation(batch, Columns.NEXT_OBS)).amin(dim=0)
        return {
            names.QF_PREDS: first,
            names.QF_TWIN_PREDS: second,
            names.QF_TARGET_NEXT: target,
            names.ACTION_PROBS: log_probs.exp(),
            names.ACTION_LOG_PROBS: log_probs,
            names.ACTION_PROBS_NEXT: following.exp(),
            names.ACTION_LOG_PROBS_NEXT: following,
        }

    def _of_numbers(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Values of the actions that were taken, and of new ones, through which the policy has its gradient."""
        critics = self.actor_critic.action_value_critic(self.policy_key)
        observation = self.observation(batch)
        first, second = critics(observation, critics.action_encoder.encode({self._head: batch[Columns.ACTIONS]}))
        logits = self.joined_logits(batch)
        action, log_prob = self._drawn(critics.action_encoder, logits)
        current = _without_gradient(critics, observation, critics.action_encoder.encode({self._head: action}))
        with torch.no_grad():
            following = self.observation(batch, Columns.NEXT_OBS)
            next_logits = self.joined_logits(batch, Columns.NEXT_OBS)
            next_action, next_log_prob = self._drawn(critics.action_encoder, next_logits)
            target = self._target(following, critics.action_encoder.encode({self._head: next_action})).amin(dim=0)
        return {
            names.QF_PREDS: first,
            names.QF_TWIN_PREDS: second,
            Columns.ACTION_DIST_INPUTS: logits,
            "logp_resampled": log_prob,
            "logp_next_resampled": next_log_prob,
            "q_curr": current.amin(dim=0),
            "q_target_next": target,
        }

    def _drawn(self, encoder: ActionEncoder, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (B, ...) with gradients, and their log-density (B,) as what goes from −1 to 1."""
        heads = self.actor_critic.distributions[self.policy_key]
        head, own = heads.heads[self._head], split_logits(heads, logits)[self._head]
        if isinstance(head, SamplesWithLogProb):
            action, log_prob = head.sample_and_log_prob(own)
        else:
            action = head.sample(own)
            log_prob = head.log_prob(own, action)
        return action, log_prob + encoder.log_scale

    def _values(self, critics: Any, batch: dict[str, Any], column: str) -> Tensor:
        observation: TensorDict = self.observation(batch, column)
        values: Tensor
        if self._chooses or Columns.ACTIONS not in batch:
            values = critics(observation)
        else:
            values = critics(observation, critics.action_encoder.encode({self._head: batch[Columns.ACTIONS]}))
        return values


class _Parameters(nn.Module):
    """Parameters under one name, for an optimiser of their own."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__()
        self.held = nn.ParameterList(parameters)


def _without_gradient(critics: Any, observation: TensorDict, action: Tensor) -> Tensor:
    """Values whose gradient flows through the action alone."""
    for parameter in critics.parameters():
        parameter.requires_grad_(False)
    values: Tensor = critics(observation, action)
    for parameter in critics.parameters():
        parameter.requires_grad_(True)
    return values


def target_entropy(space: spaces.Space[Any]) -> float:
    """−1 a Box dimension from −1 to 1, 0.98 log n a choice of n, in nats."""
    return 0.98 * math.log(int(space.n)) if isinstance(space, spaces.Discrete) else -float(math.prod(space.shape or ()))
