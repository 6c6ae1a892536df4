"""What every template shares: seeds, encodings, masks, heads, and who shares what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_kernel.models.action_distribution import ProductDistribution, make_action_distribution
from maze_kernel.models.action_encoding import ActionEncoder
from maze_kernel.models.action_value_critic import TAKEN_ACTION, ActionValueCritic
from maze_kernel.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_kernel.models.contract import ModelContext
from maze_kernel.models.distribution_rule import DistributionRule
from maze_kernel.models.observation_encoding import ObservationEncoder
from maze_perception.blocks.dense import LinearOutput
from maze_perception.blocks.general import ActionMasking
from maze_perception.graph import GraphBuilder
from maze_perception.inference import InferenceBlock
from maze_perception.options import LinearOutputOptions

POLICY_HEAD_GAIN = 0.01
VALUE_HEAD_GAIN = 1.0
N_TWINS = 2

_MASKABLE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Template(Protocol):
    """The part that templates differ in: the layers between encoded observations and heads."""

    init: str

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        """Add the policy's blocks and return the key of a vector for the heads."""
        ...

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        """Add the critic's blocks and return the key of a vector for the value head."""
        ...

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """Add the blocks of a Q network that reads the vector `action` too; return the key of a vector."""
        ...

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        """Whether policy and critic read one body, the policy's."""
        ...


def assemble(context: ModelContext, template: Template, rules: Iterable[DistributionRule]) -> StructuredActorCritic:
    """The actor-critic of a template; its initial weights depend on `context.seed` only."""
    rules = tuple(rules)
    distributions = {
        key: make_action_distribution(space, context.catalog, rules) for key, space in context.spaces.action.items()
    }
    networks = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        for key, distribution in distributions.items():
            action = context.spaces.action[key]
            build = _action_value_networks if context.critic == "state-action" else _key_networks
            networks[key] = build(context.spaces.observation[key], action, distribution, template)
    return StructuredActorCritic(context.spaces, distributions, networks)


def find_masks(observation: spaces.Dict, action: spaces.Dict) -> dict[str, str]:
    """Head name to the observation that masks it.

    `<head>_mask` masks that head, `action_mask` the only head that can be masked. Masks of heads that cannot
    be masked (boxes) are ordinary observations.
    """
    maskable = [head for head, space in action.spaces.items() if isinstance(space, _MASKABLE)]
    masks = {head: f"{head}_mask" for head in maskable if f"{head}_mask" in observation.spaces}
    if "action_mask" in observation.spaces and "action_mask" not in masks.values() and maskable:
        if len(maskable) > 1:
            raise SpaceError(
                "it is not clear which action head the observation 'action_mask' masks",
                received=f"heads {', '.join(repr(head) for head in maskable)}",
                expected=f"one mask a head, named {maskable[0]}_mask and so on",
                owner="maze-perception",
            )
        masks.setdefault(maskable[0], "action_mask")
    return masks


def _inputs(
    observation: spaces.Dict, action: spaces.Dict
) -> tuple[dict[str, str], tuple[str, ...], ObservationEncoder]:
    """Masks by head, the observations that networks read, and the encoder of all."""
    masks = find_masks(observation, action)
    features = tuple(name for name in observation.spaces if name not in masks.values())
    encoder = ObservationEncoder(observation, raw=masks.values() if features else ())
    return masks, features or tuple(masks.values()), encoder


def _action_value_networks(
    observation: spaces.Dict, action: spaces.Dict, distribution: ProductDistribution, template: Template
) -> KeyNetworks:
    """A policy and twin Q networks, which share nothing."""
    masks, features, encoder = _inputs(observation, action)
    action_encoder = ActionEncoder(action)
    body = GraphBuilder(encoder.shapes, template.init)
    latent = body.require_vector(template.policy_body(body, observation, features))
    policy = body.build(_add_heads(body, latent, distribution, masks))
    twins = [_q_network(encoder, action_encoder, observation, features, template) for _ in range(N_TWINS)]
    return KeyNetworks(encoder=encoder, policy=policy, critic=ActionValueCritic(encoder, action_encoder, twins))


def _q_network(
    encoder: ObservationEncoder,
    action_encoder: ActionEncoder,
    observation: spaces.Dict,
    features: tuple[str, ...],
    template: Template,
) -> InferenceBlock:
    """One number a choice where every head chooses; else one number for the observation and the action."""
    if action_encoder.is_enumerable:
        graph, n_values = GraphBuilder(encoder.shapes, template.init), action_encoder.n_choices
        latent = template.critic_body(graph, observation, features)
    else:
        graph, n_values = GraphBuilder({**encoder.shapes, TAKEN_ACTION: (action_encoder.size,)}, template.init), 1
        latent = template.action_value_body(graph, observation, features, TAKEN_ACTION)
    value = _add_linear(graph, "value", graph.require_vector(latent), n_values, VALUE_HEAD_GAIN)
    return graph.build({"value": value})


def _key_networks(
    observation: spaces.Dict, action: spaces.Dict, distribution: ProductDistribution, template: Template
) -> KeyNetworks:
    masks, features, encoder = _inputs(observation, action)
    shapes = encoder.shapes
    mask_shapes = {name: shapes[name] for name in masks.values()}

    body = GraphBuilder(shapes, template.init)
    latent = body.require_vector(template.policy_body(body, observation, features))
    if template.shares_body(observation, features):
        shared = body.build([latent])
        latent_shape = {latent: body.shapes[latent]}
        policy_graph = GraphBuilder({**latent_shape, **mask_shapes}, template.init)
        critic_graph = GraphBuilder(latent_shape, template.init)
        critic_latent = latent
    else:
        shared, policy_graph, critic_graph = None, body, GraphBuilder(shapes, template.init)
        critic_latent = critic_graph.require_vector(template.critic_body(critic_graph, observation, features))
    policy = policy_graph.build(_add_heads(policy_graph, latent, distribution, masks))
    value = _add_linear(critic_graph, "value", critic_latent, 1, VALUE_HEAD_GAIN)
    return KeyNetworks(encoder=encoder, policy=policy, critic=critic_graph.build({"value": value}), shared=shared)


def _add_heads(
    graph: GraphBuilder, latent: str, distribution: ProductDistribution, masks: Mapping[str, str]
) -> dict[str, str]:
    """Linear heads, masked where there is a mask; returns head name to key."""
    outputs = {}
    for head, (n_logits,) in distribution.logits_shapes().items():
        outputs[head] = _add_linear(graph, f"{head}_logits", latent, n_logits, POLICY_HEAD_GAIN)
        if head in masks:
            name = f"{head}_masking"
            outputs[head] = graph.add(name, ActionMasking, (outputs[head], masks[head]), f"model/{name}")
    return outputs


def _add_linear(graph: GraphBuilder, name: str, latent: str, units: int, gain: float) -> str:
    options = LinearOutputOptions(output_units=units)
    return graph.add(name, lambda *keys: LinearOutput(*keys, options), (latent,), f"model/{name}", gain)
