"""The `custom` model: policy, critic, or both are networks of the user's.

What surrounds them stays Maze's: encoding of observations, masks, distributions, twins. No class needs a base of ours.
A network that is not given is that of `auto`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import RequestError
from maze_perception.block import Shape
from maze_perception.blocks.general import ActionMasking
from maze_perception.graph import GraphBuilder
from maze_perception.inference import InferenceBlock
from maze_perception.models.assembly import (
    N_TWINS,
    VALUE_HEAD_GAIN,
    action_value_kind,
    add_heads,
    add_linear,
    constant_logits,
    find_inputs,
    twin_q_networks,
)
from maze_perception.models.auto import AutoTemplate, check_sequences, chosen_for
from maze_perception.models.head_bias import check_heads, head_biases
from maze_perception.models.masks import action_distributions
from maze_perception.models.user_network import UserNetwork
from maze_perception.options import AutoOptions, CustomOptions, DefaultStackOptions, NetworkOptions
from maze_runtime.env.importing import imported
from maze_runtime.models.action_distribution import ProductDistribution
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.action_value_critic import ActionValueCritic, with_taken_action
from maze_runtime.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_runtime.models.observation_encoding import ObservationEncoder


def make_custom_model(context: ModelContext, options: CustomOptions) -> StructuredActorCritic:
    """The target of the model `custom`.

    Raises:
        RequestError: no network at all, a path that cannot be imported, or a constructor that refuses.
        BlockError: a network that fails on zeros, or gives other tensors than it should.
    """
    spaces_ = context.spaces
    _check_keys(spaces_.policy_keys, options)
    options = _with_imported_networks(options)
    check_sequences(context, options.default.sequences)
    distributions = action_distributions(context, options.distributions)
    check_heads(spaces_, options.default.action_frequencies)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        networks = {key: _key_networks(context, options, key, own) for key, own in distributions.items()}
    values_actions = context.critic == "state-action"
    kind = action_value_kind(options.critic_kind, spaces_, "critic_kind") if values_actions else options.critic_kind
    return StructuredActorCritic(spaces_, distributions, networks, critic_kind=kind)


def _with_imported_networks(options: CustomOptions) -> CustomOptions:
    """The options with what their import paths name."""

    def network(given: NetworkOptions | str | None, option: str) -> NetworkOptions | str | None:
        if not isinstance(given, NetworkOptions) or not isinstance(given.use, str):
            return given
        return attrs.evolve(given, use=imported(given.use, owner="maze-perception", option=f"{option}.use"))

    return attrs.evolve(
        options,
        policy=network(options.policy, "policy"),
        critic=network(options.critic, "critic"),
        policies={key: network(own, f"policies.{key}") for key, own in options.policies.items()},
        critics={key: network(own, f"critics.{key}") for key, own in options.critics.items()},
    )


def _key_networks(
    context: ModelContext, options: CustomOptions, key: PolicyKey, distribution: ProductDistribution
) -> KeyNetworks:
    """Policy and critic, the user's or default ones; what the policy gives besides logits runs once, for both."""
    parts = _Parts.of(context, options, key, distribution)
    network = options.policy_of(key)
    if network is None:
        return parts.joined(None, parts.default_policy(), {})
    _refuse_constants(distribution)
    policy = UserNetwork.build(
        network, parts.shapes, "action_logits_shapes", distribution.logits_shapes(), taken=parts.masked
    )
    extra = {name: shape for name, shape in policy.found_shapes.items() if name not in parts.logits_shapes}
    if extra and not parts.values_actions:
        shared = InferenceBlock({policy.name: policy}, parts.shapes, policy.out_keys)
        logits = {UserNetwork.out_key(head): shape for head, shape in parts.logits_shapes.items()}
        return parts.joined(shared, _policy({}, {**logits, **parts.masked}, parts.logits_shapes, parts.masks), extra)
    inputs = {**parts.shapes, **parts.masked}
    return parts.joined(None, _policy({policy.name: policy}, inputs, parts.logits_shapes, parts.masks), {})


@attrs.frozen
class _Parts:
    """What the networks of one policy key are made from.

    Attributes:
        network: the user's critic; None: the default one.
        values_actions: whether the trainer asks for twins that value actions.
        masks: head to observation.
        features: the observations that networks read.
    """

    template: AutoTemplate
    network: NetworkOptions | None
    values_actions: bool
    observation: spaces.Dict
    action: spaces.Dict
    distribution: ProductDistribution
    masks: Mapping[str, str]
    features: tuple[str, ...]
    encoder: ObservationEncoder

    @classmethod
    def of(
        cls, context: ModelContext, options: CustomOptions, key: PolicyKey, distribution: ProductDistribution
    ) -> _Parts:
        """Those of one policy key."""
        stack = {field.name: getattr(options.default, field.name) for field in attrs.fields(DefaultStackOptions)}
        observation, action = context.spaces.observation[key], context.spaces.action[key]
        masks, features, encoder = find_inputs(observation, action)
        return cls(
            AutoTemplate(chosen_for(AutoOptions(**stack), context.critic), context.catalog),
            options.critic_of(key),
            context.critic == "state-action",
            observation,
            action,
            distribution,
            masks,
            features,
            encoder,
        )

    @property
    def shapes(self) -> dict[str, Shape]:
        """Encoded observation to shape."""
        return {name: tuple(self.encoder.shapes[name]) for name in self.features}

    @property
    def masked(self) -> dict[str, Shape]:
        """Mask to shape."""
        return {mask: tuple(self.encoder.shapes[mask]) for mask in self.masks.values()}

    @property
    def logits_shapes(self) -> dict[str, Shape]:
        """Head to shape of its logits."""
        return self.distribution.logits_shapes()

    def joined(self, shared: InferenceBlock | None, policy: InferenceBlock, extra: Mapping[str, Shape]) -> KeyNetworks:
        """The networks with a critic, which reads what the policy gives besides logits, too."""
        critic: nn.Module = self._twins() if self.values_actions else self._critic(extra)
        return KeyNetworks(encoder=self.encoder, policy=policy, critic=critic, shared=shared)

    def default_policy(self) -> InferenceBlock:
        """The policy of `auto`, without what it shares with the critic where there is an image."""
        graph = GraphBuilder(self.encoder.shapes, self.template.init)
        latent = graph.require_vector(self.template.policy_body(graph, self.observation, self.features))
        biases = head_biases(self.action, self.template.action_frequencies)
        heads = add_heads(graph, latent, self.distribution, self.masks, biases, values_actions=self.values_actions)
        return graph.build(heads)

    def _critic(self, extra: Mapping[str, Shape]) -> InferenceBlock:
        if self.network is not None:
            return _critic(self.network, {**self.shapes, **extra}, 1)
        graph = GraphBuilder({**self.shapes, **extra}, self.template.init)
        boxes = {name: spaces.Box(-np.inf, np.inf, shape) for name, shape in extra.items()}
        observation = spaces.Dict({**self.observation.spaces, **boxes})
        latent = graph.require_vector(self.template.critic_body(graph, observation, (*self.features, *extra)))
        return graph.build({"value": add_linear(graph, "value", latent, 1, VALUE_HEAD_GAIN)})

    def _twins(self) -> ActionValueCritic:
        encoded = ActionEncoder(self.action)
        if self.network is None:
            return twin_q_networks(self.encoder, encoded, self.observation, self.features, self.template)
        _refuse_one_module_for_twins(self.network)
        inputs = self.shapes if encoded.is_enumerable else with_taken_action(self.shapes, encoded.size)
        n_values = encoded.n_choices if encoded.is_enumerable else 1
        twins = [_critic(self.network, inputs, n_values) for _ in range(N_TWINS)]
        return ActionValueCritic(self.encoder, encoded, twins)


def _policy(
    blocks: Mapping[str, UserNetwork],
    inputs: Mapping[str, Shape],
    logits_shapes: Mapping[str, Shape],
    masks: Mapping[str, str],
) -> InferenceBlock:
    """Logits of every head, made by `blocks` or among `inputs`, with their masks applied."""
    keys = {head: UserNetwork.out_key(head) for head in logits_shapes}
    maskings = {
        f"{head}_masking": ActionMasking(
            (keys[head], mask), (f"model/{head}_masking",), (logits_shapes[head], inputs[mask])
        )
        for head, mask in masks.items()
    }
    outputs = {head: f"model/{head}_masking" if head in masks else key for head, key in keys.items()}
    return InferenceBlock({**blocks, **maskings}, inputs, outputs)


def _critic(options: NetworkOptions, shapes: Mapping[str, Shape], n_values: int) -> InferenceBlock:
    network = UserNetwork.build(options, shapes, "output_shapes", {"value": (n_values,)})
    return InferenceBlock({network.name: network}, shapes, {"value": UserNetwork.out_key("value")})


def _refuse_constants(distribution: ProductDistribution) -> None:
    """Refuse a distribution that asks for constant logits whoever trains: by its options, not by default."""
    for head in distribution.heads:
        if all(constant_logits(distribution, head, values_actions) for values_actions in (False, True)):
            raise RequestError(
                f"the distribution of the action head {head!r} is to have constants among its logits, "
                "and a policy of yours gives all of them",
                expected='a distribution without; of the Gaussians one with std_from = "observation" or "auto"',
                owner="maze-perception",
                help="keep them in your network as a torch.nn.Parameter, which it returns behind the other logits",
            )


def _refuse_one_module_for_twins(network: NetworkOptions) -> None:
    if isinstance(network.use, nn.Module):
        raise RequestError(
            "one torch.nn.Module cannot be both of the twin critics, which must begin with different weights",
            received=type(network.use).__qualname__,
            expected="its class, or a function that makes one",
            option="critic",
            owner="maze-perception",
        )


def _check_keys(policy_keys: tuple[PolicyKey, ...], options: CustomOptions) -> None:
    if not (options.policy or options.critic or options.policies or options.critics):
        raise RequestError(
            "the custom model has no network of yours",
            expected='policy = "package.module:Class" in [model], critic, or both',
            owner="maze-perception",
            help='leave [model] out, or write use = "auto", for default networks',
        )
    for table, own in (("policies", options.policies), ("critics", options.critics)):
        for key in own:
            if key not in policy_keys:
                raise RequestError(
                    f"[model.{table}] names the policy key {key!r}, which does not exist",
                    expected=f"one of {', '.join(policy_keys)}",
                    owner="maze-perception",
                )
