"""Targets and losses of soft actor-critic as functions of networks and batches, for any kind of action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.tensor_dict import TensorDict
from maze_sac import losses
from maze_sac.heads import ActionHeads

Logits = Callable[[TensorDict], TensorDict]
Policies = Callable[..., TensorDict]
"""`(policy key, observation) -> logits`."""
Values = Callable[..., Tensor]
"""`(observation, encoded action or None) -> action values`, as `ActionValueCritic.forward`; of all keys: key first."""
Numbers = list[tuple[Tensor, Tensor]]
"""Of every policy key its loss and what is reported beside it, () each, without gradients."""


class TransitionBatch(NamedTuple):
    """Transitions of one policy key: dicts of (B, ...), encoded actions (B, A), reward and discount (B,) float32.

    Where any key may decide next, `next_observation` holds what each key would see, by key, and `next_key` (B,) int64
    is the number of the one that decides.
    """

    observation: TensorDict
    action: Tensor
    reward: Tensor
    next_observation: dict[str, Any]
    discount: Tensor
    next_key: Tensor | None = None


class Objectives:
    """Targets and losses of a batch of one policy key as functions of networks; holds no state.

    Args:
        heads: of the action space.
    """

    def __init__(self, heads: ActionHeads) -> None:
        self._heads = heads

    def value(self, observation: TensorDict, policy: Logits, target_critic: Values, alpha: Tensor) -> Tensor:
        """Soft value of observations, (B,)."""
        heads, logits = self._heads, policy(observation)
        if heads.is_discrete:
            q = self._option_values(target_critic(observation), logits)
            return losses.exact_soft_value(q, heads.log_probs(logits), alpha)
        action, log_prob = heads.sample(logits)
        if heads.is_mixed:
            log_prob = log_prob + heads.chosen(action, heads.log_probs(logits))
        return losses.sampled_soft_value(target_critic(observation, action), log_prob, alpha)

    def target(self, batch: TransitionBatch, policy: Logits, target_critic: Values, alpha: Tensor) -> Tensor:
        """y (B,): reward plus discounted soft value of the next observation, without gradients."""
        value = self.value(batch.next_observation, policy, target_critic, alpha)
        return losses.bootstrapped_target(batch.reward, batch.discount, value).detach()

    def critic(self, batch: TransitionBatch, critic: Values, target: Tensor) -> tuple[Tensor, Tensor]:
        """Loss () and mean value () of the Q networks."""
        if self._heads.is_discrete:
            # Q(s, a) = Σ over choices of Q_k(s) of the option taken
            q = (critic(batch.observation) * batch.action).sum(-1)
        else:
            q = critic(batch.observation, batch.action)
        return losses.critic_loss(q, target), q.detach().mean()

    def policy(self, batch: TransitionBatch, policy: Logits, critic: Values, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Loss () and entropy () of the policy."""
        heads, logits = self._heads, policy(batch.observation)
        if heads.is_discrete:
            log_probs = heads.log_probs(logits)
            terms = losses.exact_policy_loss(self._option_values(critic(batch.observation), logits), log_probs, alpha)
            return terms.mean(), losses.expected_entropy(log_probs).detach().mean()
        action, log_prob = heads.sample(logits)
        terms = losses.sampled_policy_loss(critic(batch.observation, action), log_prob, alpha)
        entropy = -log_prob
        if heads.is_mixed:
            log_probs = heads.log_probs(logits)
            terms = terms + losses.exact_policy_loss(self._varied(batch, critic, action).amin(0), log_probs, alpha)
            entropy = entropy + losses.expected_entropy(log_probs)
        return terms.mean(), entropy.detach().mean()

    def _option_values(self, q: Tensor, logits: TensorDict) -> Tensor:
        """Values (2, B, K) of the twins to those of the smaller one of whole actions, (B, K)."""
        segments = self._heads.encoder.segments
        if len(segments) == 1:
            return q.amin(0)
        return losses.joint_choice_values(q, self._heads.draw_choices(logits), segments)

    def _varied(self, batch: TransitionBatch, critic: Values, action: Tensor) -> Tensor:
        """Q of every option of every choice, all else as sampled, (2, B, K): local expectations.

        Source: Titsias and Lázaro-Gredilla 2015, section 3; exact where there is one choice.
        """
        with torch.no_grad():
            varied = losses.varied_choices(action.detach(), self._heads.encoder.segments)
            n_rows, n_choices, width = varied.shape
            observation = {name: x.repeat_interleave(n_choices, 0) for name, x in batch.observation.items()}
            return critic(observation, varied.reshape(-1, width)).reshape(-1, n_rows, n_choices)


class Losses:
    """Targets and losses of a batch of each policy key; the gradient is that of their sums.

    Args:
        objectives: by key.
        batches: by key.
    """

    def __init__(
        self, objectives: Mapping[PolicyKey, Objectives], batches: Mapping[PolicyKey, TransitionBatch]
    ) -> None:
        self._parts = [(key, objective, batches[key]) for key, objective in objectives.items()]

    def targets(self, policy: Policies, target_critics: Values, alpha: Tensor) -> list[Tensor]:
        """y of every key, (B,) each."""
        return [
            objective.target(batch, partial(policy, key), partial(target_critics, key), alpha[i])
            if batch.next_key is None
            else self._target_of_whoever(batch, policy, target_critics, alpha)
            for i, (key, objective, batch) in enumerate(self._parts)
        ]

    def _target_of_whoever(
        self, batch: TransitionBatch, policy: Policies, target_critics: Values, alpha: Tensor
    ) -> Tensor:
        """y (B,) with the soft value that each next observation has for the key that decides there."""
        assert batch.next_key is not None
        values = [
            objective.value(batch.next_observation[key], partial(policy, key), partial(target_critics, key), alpha[i])
            for i, (key, objective, _) in enumerate(self._parts)
        ]
        value = torch.stack(values).gather(0, batch.next_key.unsqueeze(0)).squeeze(0)
        return losses.bootstrapped_target(batch.reward, batch.discount, value).detach()

    def critics(self, critics: Values, targets: Sequence[Tensor]) -> tuple[Tensor, Numbers]:
        """Sum of the losses (), and loss and mean value of every key."""
        return _summed(
            objective.critic(batch, partial(critics, key), target)
            for (key, objective, batch), target in zip(self._parts, targets, strict=True)
        )

    def policies(self, policy: Policies, critics: Values, alpha: Tensor) -> tuple[Tensor, Numbers]:
        """Sum of the losses (), and loss and entropy of every key."""
        return _summed(
            objective.policy(batch, partial(policy, key), partial(critics, key), alpha[i])
            for i, (key, objective, batch) in enumerate(self._parts)
        )


def _summed(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Numbers]:
    """(loss, number) of every key to the sum of the losses (), with gradients, and the pairs without."""
    pairs = list(parts)
    total = pairs[0][0]
    for loss, _ in pairs[1:]:
        total = total + loss
    return total, [(loss.detach(), number.detach()) for loss, number in pairs]
