"""One SAC update on flat parameters, eager or compiled: Q networks, policies, temperatures, target networks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.action_value_critic import ActionValueCritic
from maze_runtime.models.capabilities import ActionValueModel
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.same_operations import same_operations
from maze_runtime.training.bounded_compilation import BoundedCompilation
from maze_runtime.training.captured_update import captured_update
from maze_runtime.training.compiled_update import compile_update
from maze_runtime.training.flat_adam import AdamState, FlatAdam
from maze_runtime.training.gradient_norms import GradientNorms
from maze_runtime.training.recorded_gradient import RecordedGradient
from maze_runtime.training.subnormal_numbers import subnormal_numbers_are_zero
from maze_sac import losses
from maze_sac.heads import ActionHeads
from maze_sac.objectives import Losses, Numbers, Objectives, Policies, TensorDict, TransitionBatch, Values
from maze_sac.options import SACOptions

STATISTICS = ("critic_loss", "policy_loss", "q_value", "entropy", "entropy_coef")
"""What an update returns of each policy key, in this order."""

NORMS = ("critic_grad_norm", "policy_grad_norm")
"""What it returns behind them, of all keys together; and behind these, of each key where there are several."""


@same_operations
class _PolicyLogits(nn.Module):
    """The policies' forward pass as a module, so that `functional_call` can swap its parameters."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, key: PolicyKey, observation: TensorDict) -> TensorDict:
        logits: TensorDict = self.model.logits(key, observation)
        return logits


@same_operations
class _Critics(nn.Module):
    """The twins of all policy keys; those that keys share are there once."""

    def __init__(self, critics: Mapping[PolicyKey, ActionValueCritic]) -> None:
        super().__init__()
        self._critics = tuple(critics.items())  # in a tuple: views of shared networks own no parameters
        self._places = {key: place for place, (key, _) in enumerate(self._critics)}
        self.networks = nn.ModuleList({id(critic.networks): critic.networks for critic in critics.values()}.values())
        self.shared = nn.ModuleList([critic.shared for critic in critics.values() if critic.shared is not None])

    def forward(self, key: PolicyKey, *inputs: Any) -> Tensor:
        values: Tensor = self._critics[self._places[key]][1](*inputs)
        return values


class Update:
    """Trains policies, Q networks and temperatures; holds target networks and optimiser states.

    Losses are sums over policy keys: each has its own batch, its own twins and its own temperature.

    Args:
        model: with twin Q networks; its parameters become views of two buffers.
        options: of the trainer.
    """

    def __init__(self, model: ActionValueModel, options: SACOptions) -> None:
        self.keys = model.spaces.policy_keys
        critics = {key: model.action_value_critic(key) for key in self.keys}
        self.encoders = {key: critic.action_encoder for key, critic in critics.items()}
        self._critics = _Critics(critics)
        self._targets = copy.deepcopy(self._critics).requires_grad_(False)
        self._policy = _PolicyLogits(model)
        owned = {id(parameter) for parameter in self._critics.parameters()}
        named = [(name, p) for name, p in self._policy.named_parameters() if id(p) not in owned]
        self._policy_names = [name for name, _ in named]
        self.policy_flat = FlatParameters(nn.ParameterList([parameter for _, parameter in named]))
        self.critic_flat = FlatParameters(self._critics)
        self._target_flat = _flat_target(self._targets, self.critic_flat)
        device = self.critic_flat.data.device
        heads = {
            key: ActionHeads(model.spaces.action[key], model.distributions[key], self.encoders[key])
            for key in self.keys
        }
        self._objectives = {key: Objectives(heads[key]) for key in self.keys}
        targets = [heads[key].target_entropy(options.target_entropy_multiplier) for key in self.keys]
        self._target_entropy = torch.tensor(targets, device=device)
        log_alpha = torch.full((len(self.keys),), options.entropy_coef, device=device).log()
        alpha_flat = FlatParameters(nn.ParameterList([nn.Parameter(log_alpha)]))
        self.log_alpha = alpha_flat.data
        self._optimizers = {
            "critic": FlatAdam(self.critic_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "policy": FlatAdam(self.policy_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "alpha": FlatAdam(alpha_flat, epsilon=1e-8),
        }
        self._optimizers["alpha"].learning_rate.fill_(options.entropy_coef_lr)
        network: Any = model
        beside = [self._critics, self._targets]
        self._critic_gradient = RecordedGradient(
            network, self._critic_loss, self.critic_flat, beside=beside, draws=True
        )
        self._policy_gradient = RecordedGradient(
            network, self._policy_loss, self.policy_flat, beside=beside, draws=True
        )
        self._norms_by_key = self._make_norms_by_key(model, critics)
        self._options = options
        self._count = 0
        self._learning_rate = 0.0
        self._moves_targets = options.compile and options.target_update_interval == 1
        self._compilation = BoundedCompilation()
        self._functional = self._compiled_update() if options.compile else None
        self._run = captured_update(
            self._plain,
            [self._policy, *beside],
            [self.critic_flat, self.policy_flat],
            self._compilation if options.compile else None,
            recorded=True,
        )

    def __call__(self, learning_rate: float, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        """Update on a batch of each key; returns `STATISTICS` of each key and `NORMS`, of each key, too.

        (5 K + 2,) with one key, (7 K + 2,) with several.
        """
        if learning_rate != self._learning_rate:
            self._learning_rate = learning_rate
            self._optimizers["critic"].learning_rate.fill_(learning_rate)
            self._optimizers["policy"].learning_rate.fill_(learning_rate)
        with subnormal_numbers_are_zero():
            statistics = self._run(dict(batches))
        self._count += 1
        if not self._moves_targets and self._count % self._options.target_update_interval == 0:
            self._target_flat.lerp_(self.critic_flat.data, self._options.tau)
        return statistics

    def _plain(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        return self._eager(batches) if self._functional is None else self._run_compiled(batches)

    def _eager(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        given = dict(batches), self.log_alpha.exp()
        of_critics = _pairs(self._critic_gradient.take(*given))
        own_norms = [norm for norms in self._norms_by_key[:1] for norm in norms()]
        critic_norm = self._optimizers["critic"].step()
        of_policies = _pairs(self._policy_gradient.take(*given))
        own_norms += [norm for norms in self._norms_by_key[1:] for norm in norms()]
        policy_norm = self._optimizers["policy"].step()
        if self._options.entropy_tuning:
            gradient = losses.temperature_gradient(_entropies(of_policies), self._target_entropy)
            self._optimizers["alpha"].flat.grad.copy_(gradient)
            self._optimizers["alpha"].step()
        return _statistics(of_critics, of_policies, given[1], critic_norm, policy_norm, own_norms)

    def _critic_loss(
        self, _model: nn.Module, batches: Mapping[PolicyKey, TransitionBatch], alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of all keys together (), and `Numbers` (2 K,)."""
        losses_of = Losses(self._objectives, batches)
        with torch.no_grad():
            targets = losses_of.targets(self._policy, self._targets, alpha)
        loss, numbers = losses_of.critics(self._critics, targets)
        return loss, _joined(numbers)

    def _policy_loss(
        self, _model: nn.Module, batches: Mapping[PolicyKey, TransitionBatch], alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Likewise."""
        loss, numbers = Losses(self._objectives, batches).policies(self._policy, self._critics, alpha)
        return loss, _joined(numbers)

    def _run_compiled(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        functional = self._functional
        assert functional is not None

        def compiled() -> Tensor:
            state = [optimizer.tensors() for optimizer in self._optimizers.values()]
            return functional(self._target_flat, state, dict(batches))

        def eager() -> Tensor:
            self._moves_targets = False
            return self._eager(batches)

        return self._compilation(compiled, eager, lambda: self._differentiate(batches))

    def _differentiate(self, batches: Mapping[PolicyKey, TransitionBatch]) -> None:
        """The losses and their gradients, by a copy of the networks, so that none of their buffers changes."""
        policy, critics, targets = copy.deepcopy((self._policy, self._critics, self._targets))
        losses_of, alpha = Losses(self._objectives, batches), self.log_alpha.exp()
        with torch.no_grad():
            of_targets = losses_of.targets(policy, targets, alpha)
        critic_loss, _ = losses_of.critics(critics, of_targets)
        torch.autograd.grad(critic_loss, list(critics.parameters()), allow_unused=True)
        policy_loss, _ = losses_of.policies(policy, critics, alpha)
        torch.autograd.grad(policy_loss, list(policy.parameters()), allow_unused=True)

    def _make_norms_by_key(self, model: Any, critics: Mapping[PolicyKey, Any]) -> list[GradientNorms]:
        """Of the Q networks' gradient and of the policies'; none for one key, or a model that does not tell them."""
        if len(self.keys) == 1 or not hasattr(model, "parameters_by_key"):
            return []
        policies = model.parameters_by_key()["policy"]
        return [
            GradientNorms(self.critic_flat, {f"{NORMS[0]}/{key}": critics[key].parameters() for key in self.keys}),
            GradientNorms(self.policy_flat, {f"{NORMS[1]}/{key}": policies[key] for key in self.keys}),
        ]

    @property
    def norms(self) -> tuple[str, ...]:
        """The names of what an update returns behind the `STATISTICS` of each key."""
        return (*NORMS, *(name for norms in self._norms_by_key for name in norms.names))

    @property
    def is_compiled(self) -> bool:
        """The next update compiles nothing."""
        return self._functional is None or self._compilation.is_settled

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        seconds, self._compilation.seconds = self._compilation.seconds, 0.0
        return seconds

    def _compiled_update(self) -> Callable[..., Tensor]:
        return compile_update(_functional_update(self), self.critic_flat)

    def state_dict(self) -> dict[str, Any]:
        """Target networks, temperatures, moments and counter; copies."""
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


def _joined(numbers: Numbers) -> Tensor:
    """(2 K,)."""
    return torch.stack([number for pair in numbers for number in pair])


def _pairs(numbers: Tensor) -> Numbers:
    """What `_joined` was made of."""
    one_by_one = numbers.unbind()
    return list(zip(one_by_one[::2], one_by_one[1::2], strict=True))


def _entropies(of_policies: Numbers) -> Tensor:
    """(K,)."""
    return torch.stack([entropy for _, entropy in of_policies])


def _statistics(
    of_critics: Numbers,
    of_policies: Numbers,
    alpha: Tensor,
    critic_norm: Tensor,
    policy_norm: Tensor,
    own_norms: Sequence[Tensor],
) -> Tensor:
    """`STATISTICS` key by key, `NORMS`, and norms of single keys."""
    numbers: list[Tensor] = []
    for (critic_loss, q_value), (policy_loss, entropy), coefficient in zip(
        of_critics, of_policies, alpha.unbind(), strict=True
    ):
        numbers += [critic_loss, policy_loss, q_value, entropy, coefficient]
    return torch.stack([*numbers, critic_norm, policy_norm, *own_norms])


def _functional_update(update: Update) -> Callable[..., Tensor]:
    """The eager update as one function that writes to the tensors it is given."""
    objectives, policy, critics = update._objectives, update._policy, update._critics
    policy_names, critic_names = update._policy_names, [name for name, _ in critics.named_parameters()]
    split_policy, split_critic = update.policy_flat.split, update.critic_flat.split
    steps = [update._optimizers[name].functional() for name in ("critic", "policy", "alpha")]
    target_entropy, tuning = update._target_entropy, update._options.entropy_tuning
    moves_targets, tau = update._moves_targets, update._options.tau
    norms_by_key = update._norms_by_key

    def with_policy(parameters: Any) -> Policies:
        named = dict(zip(policy_names, parameters, strict=True))
        return lambda *inputs: functional_call(policy, named, inputs)

    def with_critics(parameters: Any) -> Values:
        named = dict(zip(critic_names, parameters, strict=True))
        return lambda *inputs: functional_call(critics, named, inputs)

    def run(target_theta: Tensor, state: list[AdamState], batches: dict[PolicyKey, TransitionBatch]) -> Tensor:
        of_critic, of_policy, of_alpha = state
        losses_of, alpha = Losses(objectives, batches), of_alpha[0].exp()
        with torch.no_grad():
            frozen = with_critics(tuple(split_critic(target_theta)))
            targets = losses_of.targets(with_policy(tuple(split_policy(of_policy[0]))), frozen, alpha)

        def critic_loss(parameters: Any) -> tuple[Tensor, Numbers]:
            return losses_of.critics(with_critics(parameters), targets)

        gradient, (_, of_q) = grad_and_value(critic_loss, has_aux=True)(tuple(split_critic(of_critic[0])))
        flat = _flatten(gradient)
        own_norms = [norm for norms in norms_by_key[:1] for norm in norms(flat)]
        critic_norm = steps[0](*of_critic, flat)
        if moves_targets:  # in the same loop over the parameters
            target_theta.lerp_(of_critic[0], tau)
        values = with_critics(tuple(split_critic(of_critic[0])))

        def policy_loss(parameters: Any) -> tuple[Tensor, Numbers]:
            return losses_of.policies(with_policy(parameters), values, alpha)

        gradient, (_, of_pi) = grad_and_value(policy_loss, has_aux=True)(tuple(split_policy(of_policy[0])))
        flat = _flatten(gradient)
        own_norms += [norm for norms in norms_by_key[1:] for norm in norms(flat)]
        policy_norm = steps[1](*of_policy, flat)
        if tuning:
            steps[2](*of_alpha, losses.temperature_gradient(_entropies(of_pi), target_entropy))
        return _statistics(of_q, of_pi, alpha, critic_norm, policy_norm, own_norms)

    return run


def _flatten(gradients: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in gradients])
