"""One SAC update on flat parameters, eager or compiled: Q networks, policy, temperature, target networks."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from maze_kernel.models.contract import ActionValueModel
from maze_kernel.models.flat_parameters import FlatParameters
from maze_kernel.training.flat_adam import FlatAdam, compile_update
from maze_sac import losses
from maze_sac.heads import ActionHeads
from maze_sac.options import SACOptions

TensorDict = dict[str, Tensor]

STATISTICS = (
    "critic_loss",
    "policy_loss",
    "q_value",
    "entropy",
    "entropy_coef",
    "critic_grad_norm",
    "policy_grad_norm",
)
"""What an update returns, in this order."""

Logits = Callable[[TensorDict], TensorDict]
Values = Callable[..., Tensor]
"""`(observation, encoded action or None) -> action values`, as `ActionValueCritic.forward`."""


class Batch(NamedTuple):
    """Transitions: dicts of (B, ...), encoded actions (B, A), reward and terminated (B,) float32."""

    observation: TensorDict
    action: Tensor
    reward: Tensor
    next_observation: TensorDict
    terminated: Tensor


class Objectives:
    """Targets and losses of a batch as functions of networks; holds no state.

    Args:
        heads: of the action space.
        gamma: discount.
    """

    def __init__(self, heads: ActionHeads, gamma: float) -> None:
        self._heads = heads
        self._gamma = gamma

    def target(self, batch: Batch, policy: Logits, target_critic: Values, alpha: Tensor) -> Tensor:
        """y (B,): reward plus discounted soft value of the next observation, without gradients."""
        heads, logits = self._heads, policy(batch.next_observation)
        if heads.is_discrete:
            q = target_critic(batch.next_observation)
            value = losses.exact_soft_value(q, heads.log_probs(logits), alpha)
        else:
            action, log_prob = heads.sample(logits)
            if heads.is_mixed:
                log_prob = log_prob + heads.chosen(action, heads.log_probs(logits))
            value = losses.sampled_soft_value(target_critic(batch.next_observation, action), log_prob, alpha)
        return losses.bootstrapped_target(batch.reward, batch.terminated, value, self._gamma).detach()

    def critic(self, batch: Batch, critic: Values, target: Tensor) -> tuple[Tensor, Tensor]:
        """Loss () and mean value () of the Q networks."""
        if self._heads.is_discrete:
            # Q(s, a) = Σ over choices of Q_k(s) of the option taken
            q = (critic(batch.observation) * batch.action).sum(-1)
        else:
            q = critic(batch.observation, batch.action)
        return losses.critic_loss(q, target), q.detach().mean()

    def policy(self, batch: Batch, policy: Logits, critic: Values, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Loss () and entropy () of the policy."""
        heads, logits = self._heads, policy(batch.observation)
        if heads.is_discrete:
            log_probs = heads.log_probs(logits)
            terms = losses.exact_policy_loss(critic(batch.observation), log_probs, alpha)
            return terms.mean(), losses.expected_entropy(log_probs).detach().mean()
        action, log_prob = heads.sample(logits)
        terms = losses.sampled_policy_loss(critic(batch.observation, action), log_prob, alpha)
        entropy = -log_prob
        if heads.is_mixed:
            log_probs = heads.log_probs(logits)
            terms = terms + losses.exact_policy_loss(self._varied(batch, critic, action), log_probs, alpha)
            entropy = entropy + losses.expected_entropy(log_probs)
        return terms.mean(), entropy.detach().mean()

    def _varied(self, batch: Batch, critic: Values, action: Tensor) -> Tensor:
        """Q of every option of every choice, all else as sampled, (2, B, K): local expectations.

        Source: Titsias and Lázaro-Gredilla 2015, section 3; exact where there is one choice.
        """
        with torch.no_grad():
            varied = losses.varied_choices(action.detach(), self._heads.encoder.segments)
            n_rows, n_choices, width = varied.shape
            observation = {name: x.repeat_interleave(n_choices, 0) for name, x in batch.observation.items()}
            return critic(observation, varied.reshape(-1, width)).reshape(-1, n_rows, n_choices)


class _PolicyLogits(nn.Module):
    """The policy's forward pass as a module, so that `functional_call` can swap its parameters."""

    def __init__(self, model: Any, key: str) -> None:
        super().__init__()
        self.model = model
        self._key = key

    def forward(self, observation: TensorDict) -> TensorDict:
        logits: TensorDict = self.model.logits(self._key, observation)
        return logits


class Update:
    """Trains policy, Q networks and temperature; holds target networks and optimiser states.

    Args:
        model: with twin Q networks; its parameters become views of two buffers.
        key: the policy key.
        options: of the trainer.
    """

    def __init__(self, model: ActionValueModel, key: str, options: SACOptions) -> None:
        self.critic = model.action_value_critic(key)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self._policy = _PolicyLogits(model, key)
        owned = {id(parameter) for parameter in self.critic.parameters()}
        named = [(name, p) for name, p in self._policy.named_parameters() if id(p) not in owned]
        self._policy_names = [name for name, _ in named]
        self.policy_flat = FlatParameters(nn.ParameterList([parameter for _, parameter in named]))
        self.critic_flat = FlatParameters(self.critic)
        self._target_flat = _flat_target(self.target_critic, self.critic_flat)
        device = self.critic_flat.data.device
        self.log_alpha = torch.tensor([options.entropy_coef], device=device).log()
        self.heads = ActionHeads(model.spaces.action[key], model.distributions[key], self.critic.action_encoder)
        alpha_flat = FlatParameters(nn.ParameterList([nn.Parameter(self.log_alpha)]))
        self.log_alpha = alpha_flat.data
        self._target_entropy = self.heads.target_entropy(options.target_entropy_multiplier)
        self._optimizers = {
            "critic": FlatAdam(self.critic_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "policy": FlatAdam(self.policy_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "alpha": FlatAdam(alpha_flat, epsilon=1e-8),
        }
        self._optimizers["alpha"].learning_rate.fill_(options.entropy_coef_lr)
        self._objectives = Objectives(self.heads, options.gamma)
        self._options = options
        self._count = 0
        self.compile_seconds = 0.0
        self.is_compiled = not options.compile
        self._functional = self._compiled_update() if options.compile else None

    def __call__(self, learning_rate: float, batch: Batch) -> Tensor:
        """Update on a batch; returns `STATISTICS`, (7,)."""
        self._optimizers["critic"].learning_rate.fill_(learning_rate)
        self._optimizers["policy"].learning_rate.fill_(learning_rate)
        statistics = self._eager(batch) if self._functional is None else self._run_compiled(batch)
        self._count += 1
        if self._count % self._options.target_update_interval == 0:
            self._target_flat.lerp_(self.critic_flat.data, self._options.tau)
        return statistics

    def _eager(self, batch: Batch) -> Tensor:
        alpha = self.log_alpha.exp().squeeze(0)
        with torch.no_grad():
            target = self._objectives.target(batch, self._policy, self.target_critic, alpha)
        self.critic_flat.grad.zero_()
        critic_loss, q_value = self._objectives.critic(batch, self.critic, target)
        critic_loss.backward(inputs=self.critic_flat.parameters)  # type: ignore[no-untyped-call]
        critic_norm = self._optimizers["critic"].step()
        self.policy_flat.grad.zero_()
        policy_loss, entropy = self._objectives.policy(batch, self._policy, self.critic, alpha)
        policy_loss.backward(inputs=self.policy_flat.parameters)  # type: ignore[no-untyped-call]
        policy_norm = self._optimizers["policy"].step()
        if self._options.entropy_tuning:
            self._optimizers["alpha"].flat.grad.copy_(losses.temperature_gradient(entropy, self._target_entropy)[None])
            self._optimizers["alpha"].step()
        values = (critic_loss.detach(), policy_loss.detach(), q_value, entropy, alpha, critic_norm, policy_norm)
        return torch.stack(values)

    def _run_compiled(self, batch: Batch) -> Tensor:
        assert self._functional is not None
        state = [tensor for optimizer in self._optimizers.values() for tensor in optimizer.tensors()]
        start = time.perf_counter()
        statistics = self._functional(self._target_flat, state, batch)
        if not self.is_compiled:
            self.compile_seconds += time.perf_counter() - start
            self.is_compiled = True
        return statistics

    def _compiled_update(self) -> Callable[..., Tensor]:
        return compile_update(_functional_update(self), self.critic_flat.data.device)

    def state_dict(self) -> dict[str, Any]:
        """Target networks, temperature, moments and counter; copies."""
        return {
            "target": self._target_flat.clone(),
            "log_alpha": self.log_alpha.clone(),
            "count": self._count,
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._target_flat.copy_(state["target"])
        self.log_alpha.copy_(state["log_alpha"])
        self._count = int(state["count"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


def _flat_target(target: nn.Module, flat: FlatParameters) -> Tensor:
    """The target networks' parameters as views of one buffer, in the order of the Q networks', (P,)."""
    data = flat.data.clone()
    for parameter, view in zip(target.parameters(), flat.split(data), strict=True):
        parameter.data = view
    return data


def _functional_update(update: Update) -> Callable[..., Tensor]:
    """The eager update as one function that writes to the tensors it is given."""
    objectives, policy, critic = update._objectives, update._policy, update.critic
    policy_names, critic_names = update._policy_names, [name for name, _ in critic.named_parameters()]
    split_policy, split_critic = update.policy_flat.split, update.critic_flat.split
    steps = [update._optimizers[name].functional() for name in ("critic", "policy", "alpha")]
    target_entropy, tuning = update._target_entropy, update._options.entropy_tuning

    def with_policy(parameters: Any) -> Logits:
        named = dict(zip(policy_names, parameters, strict=True))
        return lambda observation: functional_call(policy, named, (observation,))

    def with_critic(parameters: Any) -> Values:
        named = dict(zip(critic_names, parameters, strict=True))
        return lambda *inputs: functional_call(critic, named, inputs)

    def run(target_theta: Tensor, state: list[Tensor], batch: Batch) -> Tensor:
        of_critic, of_policy, of_alpha = state[:5], state[5:10], state[10:]
        alpha = of_alpha[0].exp().squeeze(0)
        with torch.no_grad():
            frozen = tuple(split_critic(target_theta))
            y = objectives.target(batch, with_policy(tuple(split_policy(of_policy[0]))), with_critic(frozen), alpha)

        def critic_loss(parameters: Any) -> tuple[Tensor, Tensor]:
            return objectives.critic(batch, with_critic(parameters), y)

        gradient, (of_q, q_value) = grad_and_value(critic_loss, has_aux=True)(tuple(split_critic(of_critic[0])))
        critic_norm = steps[0](*of_critic, _flatten(gradient))
        values = with_critic(tuple(split_critic(of_critic[0])))

        def policy_loss(parameters: Any) -> tuple[Tensor, Tensor]:
            return objectives.policy(batch, with_policy(parameters), values, alpha)

        gradient, (of_pi, entropy) = grad_and_value(policy_loss, has_aux=True)(tuple(split_policy(of_policy[0])))
        policy_norm = steps[1](*of_policy, _flatten(gradient))
        if tuning:
            steps[2](*of_alpha, losses.temperature_gradient(entropy, target_entropy)[None])
        return torch.stack((of_q, of_pi, q_value, entropy, alpha, critic_norm, policy_norm)).detach()

    return run


def _flatten(gradients: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in gradients])
