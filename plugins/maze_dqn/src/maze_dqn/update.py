"""One update: targets, losses and a step of Adam, eager or compiled; the target network behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor

from maze_dqn import values
from maze_dqn.options import DQNOptions
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.errors import SpaceError
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.target_network import TargetNetwork
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.training.gradient_step import GradientStep

STATISTICS = ("loss", "q_value", "td_error")
"""What an update returns of each policy key, in this order; behind those of all keys the norm of the gradient."""


class ChoiceBatch(NamedTuple):
    """Transitions of one policy key: dicts of (B, ...), columns of the choices (B, C), and (B,) float32 each.

    Without `weights` all weigh the same, and nobody asks for errors.
    """

    observation: TensorDict
    chosen: Tensor
    reward: Tensor
    next_observation: TensorDict
    discount: Tensor
    weights: Tensor | None = None


class ChoiceValues:
    """Q(s, ·) of every choice of a policy key, read off a model: advantages are its logits, V(s) its critic's value.

    The greatest logits are then the best choices, with the model's masks: the policy needs no rule of its own.

    Args:
        key: the policy key.
        space: its actions.
        duelling: Q = V + A − mean A instead of Q = A.

    Raises:
        SpaceError: a head with numbers, or nothing but bits and no V that their values could be added to.
    """

    def __init__(self, key: PolicyKey, space: spaces.Dict, *, duelling: bool) -> None:
        _require_choices(key, space, duelling=duelling)
        self._bits = {name for name, head in space.items() if isinstance(head, spaces.MultiBinary)}
        encoder = ActionEncoder(space)
        self.segments = encoder.segments
        self._heads = encoder.choices
        self.columns = values.ChoiceColumns({name: space[name] for name in encoder.choices}, encoder.segments)
        self._key = key
        self._duelling = duelling

    def __call__(self, model: Any, observation: TensorDict) -> Tensor:
        """(B, K); the values of an action's choices add up to its value."""
        if not self._duelling:
            return self._columns(model.logits(self._key, observation))
        logits, value = model.logits_and_value(self._key, observation)
        advantages = values.centred(self._columns(logits), self.segments)
        # Every choice takes its part of V, so that their sum holds it once.
        q: Tensor = advantages + (value / len(self.segments))[:, None]
        return q

    def best(self, model: Any, observation: TensorDict) -> Tensor:
        """Columns (B, C) of the best action; V plays no part."""
        return values.best_options(self._columns(model.logits(self._key, observation)), self.segments)

    def _columns(self, logits: TensorDict) -> Tensor:
        parts = [values.of_bits(logits[name]) if name in self._bits else logits[name] for name in self._heads]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class DQNUpdate:
    """Trains Q of every policy key; losses are sums over keys, each with a batch of its own.

    Args:
        model: its parameters become views of one buffer.
        options: of the trainer.
    """

    def __init__(self, model: Any, options: DQNOptions) -> None:
        self.keys = tuple(model.spaces.policy_keys)
        action = model.spaces.action
        self.choices = {key: ChoiceValues(key, action[key], duelling=options.duelling) for key in self.keys}
        self._options = options
        of_policy = set(model.policy_state_dict())
        # Without V nobody trains the critic.
        trained = [own for name, own in model.named_parameters() if options.duelling or name in of_policy]
        self._step = GradientStep(
            model,
            self._loss,
            epsilon=1e-8,
            max_grad_norm=options.max_grad_norm,
            compiled=options.compile,
            parameters=trained,
            recorded=True,
        )
        self._target = TargetNetwork(model, [self._step.flat])
        self._step.also_reads(self._target.network)
        self.n_parameters = len(self._step.flat.data)
        self.n_updates = 0

    def __call__(self, learning_rate: float, batches: Mapping[PolicyKey, ChoiceBatch]) -> tuple[Tensor, Tensor]:
        """One update; returns statistics (S·keys + 1,) and |δ| (keys, B); (keys, 0) where batches have no weights."""
        numbers = self._step(learning_rate, dict(batches))
        self.n_updates += 1
        if self.n_updates % self._options.target_update_interval == 0:
            self._target.follow(self._options.tau)
        n_statistics = len(STATISTICS) * len(self.keys)
        if len(numbers) == n_statistics + 1:
            return numbers, numbers.new_empty(len(self.keys), 0)
        errors = numbers[n_statistics:-1].reshape(len(self.keys), -1)
        return torch.cat([numbers[:n_statistics], numbers[-1:]]), errors

    def _loss(self, model: Any, batches: dict[PolicyKey, ChoiceBatch]) -> tuple[Tensor, Tensor]:
        """Sum of the losses (), statistics of every key and, behind them, |δ| of every key."""
        losses, statistics, errors = [], [], []
        for key in self.keys:
            batch = batches[key]
            target = self._targets(key, model, batch)
            q = values.value_of(self.choices[key](model, batch.observation), batch.chosen)
            loss = values.weighted_huber(q, target, batch.weights)
            losses.append(loss)
            q = q.detach()
            error = (target - q).abs()
            statistics += [loss.detach(), q.mean(), error.mean()]
            if batch.weights is not None:
                errors.append(error)
        total = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        numbers = torch.stack(statistics)
        return total, torch.cat([numbers, *errors]) if errors else numbers

    @torch.no_grad()
    def _targets(self, key: PolicyKey, model: Any, batch: ChoiceBatch) -> Tensor:
        """y = R + γⁿ Q'(s', a*), (B,); the discount is 0 where the episode terminated.

        a* is the best action by the target network Q' (Mnih et al. 2015), or by Q (van Hasselt et al. 2016, eq. 4).
        """
        choices, target = self.choices[key], self._target.network
        of_target = choices(target, batch.next_observation)
        if self._options.double:
            future = values.value_of(of_target, choices.best(model, batch.next_observation))
        else:
            future = values.greatest_value(of_target, choices.segments)
        # Where nothing follows, a mask may forbid every choice: its value times 0 would still be noise.
        return batch.reward + torch.where(batch.discount > 0, batch.discount * future, 0.0)

    @property
    def flat(self) -> FlatParameters:
        """What is trained."""
        return self._step.flat

    @property
    def phase(self) -> str:
        """What the next update will spend its time on."""
        return self._step.phase()

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        return self._step.take_compile_seconds()

    def state_dict(self) -> dict[str, Any]:
        """Moments of Adam, the target network, the number of updates."""
        return {"step": self._step.state_dict(), "target": self._target.state_dict(), "n_updates": self.n_updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._step.load_state_dict(state["step"])
        self._target.load_state_dict(state["target"])
        self.n_updates = int(state["n_updates"])


def _require_choices(key: PolicyKey, space: spaces.Dict, *, duelling: bool) -> None:
    for name, head in space.items():
        if isinstance(head, spaces.Box):
            raise SpaceError(
                f"dqn cannot value the numbers of action head {name!r} of policy key {key!r}",
                received=str(head),
                expected="Discrete, MultiDiscrete or MultiBinary",
                owner="maze-dqn",
                help="choose a trainer for numbers, such as sac or ppo",
            )
    if not duelling and all(isinstance(head, spaces.MultiBinary) for head in space.values()):
        raise SpaceError(
            f"bits alone say which value is greater and not how great it is, policy key {key!r}",
            received=str(space),
            expected="values of states beside them",
            owner="maze-dqn",
            help="set duelling = true",
        )
