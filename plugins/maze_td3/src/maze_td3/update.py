"""One update: Q networks, and every few of them the policy and the target networks behind both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import mse_loss

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.errors import SpaceError
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.target_network import TargetNetwork
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.training.gradient_step import GradientStep
from maze_td3.options import TD3Options

CRITIC_STATISTICS = ("critic_loss", "q_value")
"""What an update of the Q networks returns of each policy key; behind those of all keys the norm of the gradient."""
POLICY_STATISTICS = ("policy_loss",)
"""Likewise of the policies."""


class NumberBatch(NamedTuple):
    """Transitions of one policy key: dicts of (B, ...), encoded actions (B, A), (B,) float32 each, noise (B, A)."""

    observation: TensorDict
    action: Tensor
    reward: Tensor
    next_observation: TensorDict
    discount: Tensor
    noise: Tensor


class Numbers:
    """A deterministic policy over the numbers of a policy key, read off a model: the mode of its distributions.

    Args:
        key: the policy key.
        model: with Q networks.

    Raises:
        SpaceError: a head that chooses, or a distribution whose mode has no gradient.
    """

    def __init__(self, key: PolicyKey, model: Any) -> None:
        space = model.spaces.action[key]
        self._key = key
        self._heads = dict(model.distributions[key].heads)
        for name, head in space.items():
            _require_gradient(key, name, head, self._heads[name])
        self.encoder = model.action_value_critic(key).action_encoder
        low, high = _encoded_bounds([space[name] for name in self.encoder.numbers])
        self.low, self.high = torch.from_numpy(low), torch.from_numpy(high)

    def action(self, model: Any, observation: TensorDict) -> Tensor:
        """μ(s) as Q networks read it, (B, A)."""
        logits = model.logits(self._key, observation)
        encoded: Tensor = self.encoder.encode({name: head.mode(logits[name]) for name, head in self._heads.items()})
        return encoded

    def values(self, model: Any, observation: TensorDict, action: Tensor) -> Tensor:
        """Q_i(s, a) of both networks, (2, B)."""
        values: Tensor = model.action_value_critic(self._key)(observation, action)
        return values

    def first_value(self, model: Any, observation: TensorDict, action: Tensor) -> Tensor:
        """Q_1(s, a), (B,)."""
        value: Tensor = model.action_value_critic(self._key).first(observation, action)
        return value

    def to(self, device: torch.device) -> None:
        """Move the bounds."""
        self.low, self.high = self.low.to(device), self.high.to(device)


class TD3Update:
    """Trains Q networks and policies of every policy key; losses are sums over keys, each with a batch of its own.

    Args:
        model: its parameters become views of two buffers.
        options: of the trainer.
    """

    def __init__(self, model: Any, options: TD3Options) -> None:
        self.keys = tuple(model.spaces.policy_keys)
        self._numbers = {key: Numbers(key, model) for key in self.keys}
        self.encoders = {key: numbers.encoder for key, numbers in self._numbers.items()}
        self._options = options
        critics = [own for key in self.keys for own in model.action_value_critic(key).parameters()]
        owned = {id(parameter) for parameter in critics}
        policies = [own for own in model.parameters() if id(own) not in owned]
        common: dict[str, Any] = {
            "epsilon": 1e-8,
            "max_grad_norm": options.max_grad_norm,
            "compiled": options.compile,
            "recorded": True,
        }
        self._critic_step = GradientStep(model, self._critic_loss, parameters=critics, **common)
        self._policy_step = GradientStep(model, self._policy_loss, parameters=policies, **common)
        self._target = TargetNetwork(model, [self._critic_step.flat, self._policy_step.flat])
        self._critic_step.also_reads(self._target.network)
        for numbers in self._numbers.values():
            numbers.to(self._critic_step.flat.data.device)
        self.n_parameters = len(self._critic_step.flat.data) + len(self._policy_step.flat.data)
        self.n_updates = 0

    def __call__(self, learning_rate: float, batches: Mapping[PolicyKey, NumberBatch]) -> tuple[Tensor, Tensor | None]:
        """One update; statistics of the Q networks, and of the policies where it was their turn."""
        batches = dict(batches)
        of_critics = self._critic_step(learning_rate, batches)
        self.n_updates += 1
        if self.n_updates % self._options.policy_delay:
            return of_critics, None
        observations = {key: batch.observation for key, batch in batches.items()}
        of_policies = self._policy_step(learning_rate, observations)
        self._target.follow(self._options.tau)
        return of_critics, of_policies

    def noise(self, key: PolicyKey, n_rows: int, rng: np.random.Generator) -> np.ndarray:
        """ε ~ clip(N(0, σ), −c, c) for the target policy's actions, (n_rows, A) float32."""
        options, shape = self._options, (n_rows, self.encoders[key].size)
        if not options.target_noise:
            return np.zeros(shape, np.float32)
        noise = rng.standard_normal(shape, np.float32) * np.float32(options.target_noise)
        return noise.clip(-options.target_noise_clip, options.target_noise_clip)

    def _critic_loss(self, model: Any, batches: dict[PolicyKey, NumberBatch]) -> tuple[Tensor, Tensor]:
        """Σ_i mean (Q_i(s, a) − y)², summed over keys (), and statistics."""
        losses, statistics = [], []
        for key, batch in batches.items():
            target = self._targets(key, batch)
            q = self._asked(self._numbers[key], model, batch.observation, batch.action)
            loss = mse_loss(q, target.expand_as(q), reduction="sum") / len(target)
            losses.append(loss)
            statistics += [loss.detach(), q.detach().mean()]
        return torch.stack(losses).sum(), torch.stack(statistics)

    @torch.no_grad()
    def _targets(self, key: PolicyKey, batch: NumberBatch) -> Tensor:
        """y = r + γ min_i Q'_i(s', clip(μ'(s') + ε)), (B,). Source: Fujimoto et al. 2018, algorithm 1."""
        numbers, target = self._numbers[key], self._target.network
        action = (numbers.action(target, batch.next_observation) + batch.noise).clamp(numbers.low, numbers.high)
        value = self._asked(numbers, target, batch.next_observation, action).amin(0)
        # What was never seen may have no finite value; times 0 it would still be NaN.
        return batch.reward + torch.where(batch.discount > 0, batch.discount * value, 0.0)

    def _policy_loss(self, model: Any, observations: dict[PolicyKey, TensorDict]) -> tuple[Tensor, Tensor]:
        """−mean Q_1(s, μ(s)), summed over keys (), and its parts. Source: Silver et al. 2014, equation 9."""
        losses = []
        for key, observation in observations.items():
            numbers = self._numbers[key]
            losses.append(-numbers.first_value(model, observation, numbers.action(model, observation)).mean())
        total = torch.stack(losses)
        return total.sum(), total.detach()

    def _asked(self, numbers: Numbers, model: Any, observation: TensorDict, action: Tensor) -> Tensor:
        """Of the networks that take part, (2, B) or (1, B)."""
        if self._options.twin:
            return numbers.values(model, observation, action)
        return numbers.first_value(model, observation, action).unsqueeze(0)

    @property
    def policies(self) -> FlatParameters:
        """What policies consist of."""
        return self._policy_step.flat

    @property
    def phase(self) -> str:
        """What the next update will spend its time on."""
        return self._critic_step.phase()

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        return self._critic_step.take_compile_seconds() + self._policy_step.take_compile_seconds()

    def state_dict(self) -> dict[str, Any]:
        """Moments of both optimisers, the target networks, the number of updates."""
        return {
            "critic": self._critic_step.state_dict(),
            "policy": self._policy_step.state_dict(),
            "target": self._target.state_dict(),
            "n_updates": self.n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._critic_step.load_state_dict(state["critic"])
        self._policy_step.load_state_dict(state["policy"])
        self._target.load_state_dict(state["target"])
        self.n_updates = int(state["n_updates"])


def _encoded_bounds(boxes: list[spaces.Box]) -> tuple[np.ndarray, np.ndarray]:
    """−1 and 1 of numbers bounded on both sides, which Q networks read scaled; the bounds themselves of others."""
    low, high = (np.concatenate([getattr(box, side).reshape(-1) for box in boxes]) for side in ("low", "high"))
    scaled = np.concatenate([bounds_of(box).is_wide.reshape(-1) for box in boxes])
    with np.errstate(over="ignore"):
        return np.where(scaled, -1.0, low).astype(np.float32), np.where(scaled, 1.0, high).astype(np.float32)


def _require_gradient(key: PolicyKey, name: str, space: spaces.Space[Any], head: Any) -> None:
    if not isinstance(space, spaces.Box):
        raise SpaceError(
            f"td3 cannot choose among the options of action head {name!r} of policy key {key!r}",
            received=str(space),
            expected="Box",
            owner="maze-td3",
            help="choose a trainer for choices, such as dqn, sac or ppo",
        )
    mode = head.mode(torch.zeros((1, *head.logits_shape), requires_grad=True))
    if not mode.requires_grad:
        raise SpaceError(
            f"the mode of action head {name!r} carries no gradient",
            received=f"{type(head).__name__} over {space}",
            expected="a distribution whose mode depends smoothly on its logits, such as squashed-gaussian",
            owner="maze-td3",
        )
