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
from maze_runtime.models.capabilities import ActionValueModel, GroupsParameters
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.target_network import TargetNetwork
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.training.bounded_compilation import BoundedCompilation
from maze_runtime.training.captured_update import captured_update
from maze_runtime.training.compiled_update import compile_update
from maze_runtime.training.flat_adam import AdamState, FlatAdam
from maze_runtime.training.gradient_norms import GradientNorms
from maze_runtime.training.recorded_gradient import RecordedGradient
from maze_runtime.training.subnormal_numbers import subnormal_numbers_are_zero
from maze_sac.heads import ActionHeads
from maze_sac.objectives import Losses, Numbers, Objectives, TransitionBatch
from maze_sac.options import SACOptions
from maze_sac.temperatures import Temperatures

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
        self._options = options
        critics: dict[PolicyKey, Any] = {key: model.action_value_critic(key) for key in self.keys}
        self.encoders = {key: critic.action_encoder for key, critic in critics.items()}
        self._critics, self._policy = _Critics(critics), _PolicyLogits(model)
        self.critic_flat = FlatParameters(self._critics)
        of_critics = {id(parameter) for parameter in self._critics.parameters()}
        of_policy = [parameter for parameter in self._policy.parameters() if id(parameter) not in of_critics]
        self.policy_flat = FlatParameters(self._policy, of_policy)
        self._target = TargetNetwork(self._critics, [self.critic_flat])
        heads = {
            key: ActionHeads(model.spaces.action[key], model.distributions[key], self.encoders[key])
            for key in self.keys
        }
        self._objectives = {key: Objectives(heads[key]) for key in self.keys}
        entropies = [heads[key].target_entropy(options.target_entropy_multiplier) for key in self.keys]
        self._temperatures = Temperatures(options, entropies, self.critic_flat.data.device)
        self._optimizers = {
            "critic": FlatAdam(self.critic_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "policy": FlatAdam(self.policy_flat, epsilon=1e-8, max_grad_norm=options.max_grad_norm),
            "alpha": self._temperatures.optimizer,
        }
        self._critic_norms, self._policy_norms = self._norms_of_keys(model, critics)
        beside: list[nn.Module] = [self._critics, self._target.network]
        network: Any = model
        self._critic_gradient, self._policy_gradient = (
            RecordedGradient(network, loss, flat, beside=beside, draws=True)
            for loss, flat in ((self._critic_loss, self.critic_flat), (self._policy_loss, self.policy_flat))
        )
        self._count = 0
        self._learning_rate = 0.0
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
        if self._moves_targets and not self._compilation.is_eager:
            self._target.follow_buffers()
        elif self._count % self._options.target_update_interval == 0:
            self._target.follow(self._options.tau)
        return statistics

    @property
    def log_alpha(self) -> Tensor:
        """Logarithms of the temperatures, (K,)."""
        return self._temperatures.log_alpha

    @property
    def _moves_targets(self) -> bool:
        """The compiled update moves the parameters of the target networks, too."""
        return self._options.compile and self._options.target_update_interval == 1

    def _plain(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        return self._eager(batches) if self._functional is None else self._run_compiled(batches)

    def _eager(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        given = dict(batches), self.log_alpha.exp()
        of_critics = _pairs(self._critic_gradient.take(*given))
        own_norms = self._critic_norms()
        critic_norm = self._optimizers["critic"].step()
        of_policies = _pairs(self._policy_gradient.take(*given))
        own_norms += self._policy_norms()
        policy_norm = self._optimizers["policy"].step()
        self._temperatures.step(_entropies(of_policies))
        return _statistics(of_critics, of_policies, given[1], critic_norm, policy_norm, own_norms)

    def _critic_loss(
        self, _model: nn.Module, batches: Mapping[PolicyKey, TransitionBatch], alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of all keys together (), and `Numbers` (2 K,)."""
        losses_of = Losses(self._objectives, batches)
        with torch.no_grad():
            targets = losses_of.targets(self._policy, self._target.network, alpha)
        loss, numbers = losses_of.critics(self._critics, targets)
        return loss, _joined(numbers)

    def _policy_loss(
        self, _model: nn.Module, batches: Mapping[PolicyKey, TransitionBatch], alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of all keys together (), and `Numbers` (2 K,)."""
        loss, numbers = Losses(self._objectives, batches).policies(self._policy, self._critics, alpha)
        return loss, _joined(numbers)

    def _run_compiled(self, batches: Mapping[PolicyKey, TransitionBatch]) -> Tensor:
        functional = self._functional
        assert functional is not None

        def compiled() -> Tensor:
            state = [optimizer.tensors() for optimizer in self._optimizers.values()]
            return functional(self._target.flats[0], state, dict(batches))

        return self._compilation(compiled, lambda: self._eager(batches), lambda: self._differentiate(batches))

    def _differentiate(self, batches: Mapping[PolicyKey, TransitionBatch]) -> None:
        """The losses and their gradients, by a copy of the networks, so that none of their buffers changes."""
        policy, critics, targets = copy.deepcopy((self._policy, self._critics, self._target.network))
        losses_of, alpha = Losses(self._objectives, batches), self.log_alpha.exp()
        with torch.no_grad():
            of_targets = losses_of.targets(policy, targets, alpha)
        critic_loss, _ = losses_of.critics(critics, of_targets)
        torch.autograd.grad(critic_loss, list(critics.parameters()), allow_unused=True)
        policy_loss, _ = losses_of.policies(policy, critics, alpha)
        torch.autograd.grad(policy_loss, list(policy.parameters()), allow_unused=True)

    def _norms_of_keys(self, model: Any, critics: Mapping[PolicyKey, Any]) -> tuple[GradientNorms, GradientNorms]:
        """Of the Q networks' gradient and of the policies'; empty for one key, or a model that does not tell them."""
        if len(self.keys) == 1 or not isinstance(model, GroupsParameters):
            return GradientNorms(self.critic_flat, {}), GradientNorms(self.policy_flat, {})
        policies = model.parameters_by_key()["policy"]
        return (
            GradientNorms(self.critic_flat, {f"{NORMS[0]}/{key}": critics[key].parameters() for key in self.keys}),
            GradientNorms(self.policy_flat, {f"{NORMS[1]}/{key}": policies[key] for key in self.keys}),
        )

    @property
    def norms(self) -> tuple[str, ...]:
        """The names of what an update returns behind the `STATISTICS` of each key."""
        return (*NORMS, *self._critic_norms.names, *self._policy_norms.names)

    @property
    def is_compiled(self) -> bool:
        """The next update compiles nothing."""
        return self._functional is None or self._compilation.is_settled

    def take_compile_seconds(self) -> float:
        """Seconds spent compiling since the last call."""
        seconds, self._compilation.seconds = self._compilation.seconds, 0.0
        return seconds

    def _compiled_update(self) -> Callable[..., Tensor]:
        return compile_update(self._functional_update(), self.critic_flat)

    def _functional_update(self) -> Callable[..., Tensor]:
        """The eager update as one function that writes to the tensors it is given."""
        split_policy, split_critic = self.policy_flat.split, self.critic_flat.split
        with_policy = _swapped(self._policy, self.policy_flat)
        with_critics, with_targets = (
            _swapped(network, self.critic_flat, named_by=self._critics)
            for network in (self._critics, self._target.network)
        )
        steps = [self._optimizers[name].functional() for name in ("critic", "policy", "alpha")]
        objectives, temperatures = self._objectives, self._temperatures
        critic_norms, policy_norms = self._critic_norms, self._policy_norms
        moves_targets, tau = self._moves_targets, self._options.tau

        def run(target_theta: Tensor, state: list[AdamState], batches: dict[PolicyKey, TransitionBatch]) -> Tensor:
            of_critic, of_policy, of_alpha = state
            losses_of, alpha = Losses(objectives, batches), of_alpha[0].exp()
            with torch.no_grad():
                policies, frozen = with_policy(split_policy(of_policy[0])), with_targets(split_critic(target_theta))
                targets = losses_of.targets(policies, frozen, alpha)

            def critic_loss(parameters: Any) -> tuple[Tensor, Numbers]:
                return losses_of.critics(with_critics(parameters), targets)

            gradient, (_, of_q) = grad_and_value(critic_loss, has_aux=True)(tuple(split_critic(of_critic[0])))
            flat = _flatten(gradient)
            own_norms = critic_norms(flat)
            critic_norm = steps[0](*of_critic, flat)
            if moves_targets:  # in the same loop over the parameters
                target_theta.lerp_(of_critic[0], tau)
            values = with_critics(split_critic(of_critic[0]))

            def policy_loss(parameters: Any) -> tuple[Tensor, Numbers]:
                return losses_of.policies(with_policy(parameters), values, alpha)

            gradient, (_, of_pi) = grad_and_value(policy_loss, has_aux=True)(tuple(split_policy(of_policy[0])))
            flat = _flatten(gradient)
            own_norms += policy_norms(flat)
            policy_norm = steps[1](*of_policy, flat)
            if temperatures.are_tuned:
                steps[2](*of_alpha, temperatures.gradient(_entropies(of_pi)))
            return _statistics(of_q, of_pi, alpha, critic_norm, policy_norm, own_norms)

        return run

    def state_dict(self) -> dict[str, Any]:
        """Target networks, temperatures, moments and counter; copies."""
        return {
            "target": self._target.state_dict(),
            "log_alpha": self.log_alpha.clone(),
            "count": self._count,
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._target.load_state_dict(state["target"])
        self.log_alpha.copy_(state["log_alpha"])
        self._count = int(state["count"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


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


def _swapped(
    module: nn.Module, flat: FlatParameters, named_by: nn.Module | None = None
) -> Callable[[Sequence[Tensor]], Callable[..., Any]]:
    """The forward pass of `module` by given parameters instead of those that are called as those in `flat` are."""
    trained = {id(parameter) for parameter in flat.parameters}
    names = [name for name, own in (named_by or module).named_parameters() if id(own) in trained]

    def with_parameters(parameters: Sequence[Tensor]) -> Callable[..., Any]:
        named = dict(zip(names, parameters, strict=True))
        return lambda *inputs: functional_call(module, named, inputs)

    return with_parameters


def _flatten(gradients: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in gradients])
