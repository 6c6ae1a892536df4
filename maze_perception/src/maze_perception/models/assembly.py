"""What every template shares: seeds, encodings, masks, heads, and who shares what."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import attrs
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import RequestError
from maze_perception.blocks.dense import LinearOutput
from maze_perception.blocks.general import ActionMasking
from maze_perception.graph import GraphBuilder
from maze_perception.inference import InferenceBlock
from maze_perception.models.head_bias import check_heads, head_biases
from maze_perception.models.masks import action_distributions, find_masks
from maze_perception.options import LinearOutputOptions
from maze_runtime.models.action_distribution import ProductDistribution
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.action_value_critic import TAKEN_ACTION, ActionValueCritic, with_taken_action
from maze_runtime.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_runtime.models.agent_networks import AgentNetworks
from maze_runtime.models.distribution_rule import DistributionRule
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.recurrence import state_shapes_of
from maze_runtime.models.shared_action_values import (
    SharedActionValueCritic,
    SharedLayout,
    joined_names,
    joined_space,
)
from maze_runtime.models.shared_critic import WHO, ReadTogether, SharedInputs, SharedStateCritic

POLICY_HEAD_GAIN = 0.01
VALUE_HEAD_GAIN = 1.0
N_TWINS = 2


class Template(Protocol):
    """The part that templates differ in: the layers between encoded observations and heads."""

    @property
    def init(self) -> str:
        """How linear and convolution layers are initialised."""
        ...

    @property
    def action_frequencies(self) -> Mapping[str, Sequence[float]]:
        """See `head_biases`."""
        ...

    @property
    def critic_kind(self) -> str | None:
        """As chosen."""
        ...

    @property
    def separate_agent_nets(self) -> tuple[str, ...]:
        """Policy keys whose agents have networks of their own."""
        ...

    def of(self, policy_key: PolicyKey) -> Template:
        """The template of one policy key."""
        ...

    def joined(self, readers: Mapping[str, tuple[PolicyKey, ...]]) -> Template:
        """The template of a network that all policy keys share; `readers`: input to the keys that read it."""
        ...

    def groups(self, observation: spaces.Dict, features: tuple[str, ...]) -> list[ReadTogether]:
        """What networks of the policy key read together; what they ignore is in none."""
        ...

    def policy_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        """Add the policy's blocks and return the key of a vector for the heads."""
        ...

    def critic_body(self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...]) -> str:
        """Add the critic's blocks and return the key of a vector for the value head."""
        ...

    def shared_critic_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], who: str
    ) -> str:
        """Add the blocks of the critic of all policy keys, which reads the vector `who` too; return a vector's key."""
        ...

    def action_value_body(
        self, graph: GraphBuilder, observation: spaces.Dict, features: tuple[str, ...], action: str
    ) -> str:
        """Add the blocks of a Q network that reads the vector `action` too; return the key of a vector."""
        ...

    def twins_share(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        """The blocks of `action_value_body` up to which twin Q networks are one; empty: they share nothing."""
        ...

    def shares_body(self, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
        """Whether policy and critic read one body, the policy's."""
        ...

    def shared_blocks(self, observation: spaces.Dict, features: tuple[str, ...]) -> tuple[str, ...]:
        """Where they do not: the blocks of the policy's graph up to which they do; empty: they share nothing."""
        ...


def assemble(context: ModelContext, template: Template, rules: Iterable[DistributionRule]) -> StructuredActorCritic:
    """The actor-critic of a template; its initial weights depend on `context.seed` only."""
    spaces_ = context.spaces
    distributions = action_distributions(context, rules)
    check_heads(spaces_, template.action_frequencies)
    n_agents = _separate_agents(spaces_, template.separate_agent_nets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        if context.critic == "state-action":
            if n_agents:
                raise RequestError(
                    "agents cannot have networks of their own where the trainer values actions",
                    received=f"[model] separate_agent_nets = {list(n_agents)}",
                    owner="maze-perception",
                    help="leave separate_agent_nets out, or train with ppo or a2c",
                )
            return _action_value_model(spaces_, distributions, template)
        inputs = {key: find_inputs(spaces_.observation[key], space) for key, space in spaces_.action.items()}
        shares = {key: _shares(template.of(key), spaces_.observation[key], inputs[key][1]) for key in inputs}
        kind = template.critic_kind or "shared-state"
        one_critic = kind == "shared-state" and len(inputs) > 1 and not any(shares.values())

        def build(one_critic: bool) -> dict[PolicyKey, KeyNetworks]:
            return {
                key: _agents_networks(
                    n_agents.get(key),
                    partial(
                        _key_networks,
                        spaces_.observation[key],
                        inputs[key],
                        own,
                        template.of(key),
                        with_critic=not one_critic,
                        biases=head_biases(spaces_.action[key], template.action_frequencies),
                    ),
                    one_critic=kind == "shared-state" and not shares[key],
                )
                for key, own in distributions.items()
            }

        networks = build(one_critic)
        shared_critic = _shared_critic(spaces_, inputs, template) if one_critic else None
        if shared_critic is not None and state_shapes_of(shared_critic.network):
            # What one critic of all policy keys carries would be no actor's: each key has one of its own.
            networks, shared_critic = build(False), None
    return StructuredActorCritic(spaces_, distributions, networks, critic_kind=kind, shared_critic=shared_critic)


def action_value_kind(chosen: str | None, spaces_: StructuredSpaces, option: str = "critic") -> str:
    """The `critic_kind` of a model that values actions, from the kind of critic that was chosen in an option.

    Raises:
        RequestError: differences of action values mean nothing.
    """
    if chosen == "delta-state":
        raise RequestError(
            "the trainer values actions, which have no differences to the decision before",
            received='a critic of the kind "delta-state"',
            expected='"shared-state" or "step-state"',
            owner="maze-perception",
            option=option,
            help="choose one of them in [model], or train with ppo, a2c or impala",
        )
    return "shared-state-action" if chosen == "shared-state" and not spaces_.is_flat else "state-action"


def _shares(template: Template, observation: spaces.Dict, features: tuple[str, ...]) -> bool:
    """Whether policy and critic have a part in common."""
    return template.shares_body(observation, features) or bool(template.shared_blocks(observation, features))


def _separate_agents(spaces_: StructuredSpaces, keys: Iterable[PolicyKey]) -> dict[PolicyKey, int]:
    """Policy key to number of agents, for those whose agents have networks of their own."""
    for key in keys:
        n_agents = spaces_.agent_counts.get(key)
        if n_agents is None or n_agents < 1:
            raise RequestError(
                f"[model] separate_agent_nets names the policy key {key!r}, "
                + ("which does not exist" if n_agents is None else "whose number of agents changes"),
                expected=f"some of {', '.join(repr(known) for known, n in spaces_.agent_counts.items() if n > 0)}",
                owner="maze-perception",
            )
    return {key: spaces_.agent_counts[key] for key in keys}


def _agents_networks(n_agents: int | None, build: Callable[[], KeyNetworks], *, one_critic: bool) -> KeyNetworks:
    """The networks of a policy key, or of each of its agents; `one_critic`: with the first one's critic for all."""
    first = build()
    if n_agents is None:
        return first
    agents = [first, *(build() for _ in range(n_agents - 1))]
    critics = [parts.critic for parts in agents if parts.critic is not None]
    bodies = [parts.shared for parts in agents if parts.shared is not None]
    return KeyNetworks(
        encoder=first.encoder,
        policy=AgentNetworks([parts.policy for parts in agents]),
        critic=first.critic if one_critic or not critics else AgentNetworks(critics),
        shared=AgentNetworks(bodies) if bodies else None,
    )


def _shared_critic(
    spaces_: StructuredSpaces, inputs: Mapping[PolicyKey, Inputs], template: Template
) -> SharedStateCritic:
    shapes = {key: {name: encoder.shapes[name] for name in features} for key, (_, features, encoder) in inputs.items()}
    groups = {key: template.of(key).groups(spaces_.observation[key], tuple(own)) for key, own in shapes.items()}
    joined = SharedInputs.of(shapes, groups)
    graph = GraphBuilder({**joined.shapes, WHO: (len(shapes),)}, template.init)
    observation = spaces.Dict(
        {name: spaces_.observation[key][source] for key, own in joined.sources.items() for name, source in own.items()}
    )
    body = template.joined(joined.readers).shared_critic_body(graph, observation, tuple(joined.shapes), WHO)
    value = add_linear(graph, "value", graph.require_vector(body), 1, VALUE_HEAD_GAIN)
    return SharedStateCritic(graph.build({"value": value}), joined)


Inputs = tuple[dict[str, str], tuple[str, ...], ObservationEncoder]
"""Masks by head, the observations that networks read, and the encoder of all."""


def find_inputs(observation: spaces.Dict, action: spaces.Dict) -> Inputs:
    """Masks by head, the observations that networks read, and the encoder of all."""
    masks = find_masks(observation, action)
    features = tuple(name for name in observation.spaces if name not in masks.values())
    encoder = ObservationEncoder(observation, raw=masks.values() if features else ())
    return masks, features or tuple(masks.values()), encoder


def _action_value_model(
    spaces_: StructuredSpaces, distributions: Mapping[PolicyKey, ProductDistribution], template: Template
) -> StructuredActorCritic:
    """Policies, and twins of each policy key or one pair for all."""
    kind = action_value_kind(template.critic_kind, spaces_)
    together = kind == "shared-state-action" and len(distributions) > 1
    networks = {
        key: _action_value_networks(
            spaces_.observation[key], spaces_.action[key], own, template.of(key), with_critic=not together
        )
        for key, own in distributions.items()
    }
    if together:
        views = _shared_twins(spaces_, template)
        networks = {key: attrs.evolve(parts, critic=views[key]) for key, parts in networks.items()}
    return StructuredActorCritic(spaces_, distributions, networks, critic_kind=kind)


def _shared_twins(spaces_: StructuredSpaces, template: Template) -> dict[PolicyKey, SharedActionValueCritic]:
    """One pair of Q networks as each policy key sees it; masks are not read."""
    names = joined_names(spaces_.observation)
    template = template.joined({name: (key,) for key, own in names.items() for name in own.values()})
    read = {
        names[key][feature]
        for key, action in spaces_.action.items()
        for feature in find_inputs(spaces_.observation[key], action)[1]
    }
    joined = joined_space(spaces_.observation)
    columns = {name: place for place, name in enumerate(joined) if name in read}
    ordered = (name for key in sorted(names) for name in names[key].values() if name in read)
    observation = spaces.Dict(OrderedDict((name, joined[name]) for name in ordered))
    encoder = ObservationEncoder(observation)
    actions = {key: ActionEncoder(space) for key, space in spaces_.action.items()}
    layout = SharedLayout.of(actions)

    def network() -> InferenceBlock:
        graph = GraphBuilder(with_taken_action(encoder.shapes, layout.n_columns), template.init)
        latent = template.action_value_body(graph, observation, tuple(observation.spaces), TAKEN_ACTION)
        value = add_linear(graph, "value", graph.require_vector(latent), layout.n_outputs, VALUE_HEAD_GAIN)
        return graph.build({"value": value})

    twins = nn.ModuleList([network() for _ in range(N_TWINS)])
    return {key: SharedActionValueCritic(key, columns, encoder, own, twins, layout) for key, own in actions.items()}


def _action_value_networks(
    observation: spaces.Dict,
    action: spaces.Dict,
    distribution: ProductDistribution,
    template: Template,
    *,
    with_critic: bool,
) -> KeyNetworks:
    """A policy and, where the policy keys do not share them, twin Q networks; they share nothing with it."""
    masks, features, encoder = find_inputs(observation, action)
    action_encoder = ActionEncoder(action)
    body = GraphBuilder(encoder.shapes, template.init)
    latent = body.require_vector(template.policy_body(body, observation, features))
    biases = head_biases(action, template.action_frequencies)
    policy = body.build(add_heads(body, latent, distribution, masks, biases, values_actions=True))
    if not with_critic:
        return KeyNetworks(encoder=encoder, policy=policy, critic=None)
    twins = twin_q_networks(encoder, action_encoder, observation, features, template)
    return KeyNetworks(encoder=encoder, policy=policy, critic=twins)


def twin_q_networks(
    encoder: ObservationEncoder,
    action_encoder: ActionEncoder,
    observation: spaces.Dict,
    features: tuple[str, ...],
    template: Template,
) -> ActionValueCritic:
    """One number a choice where every head chooses; else one number for the observation and the action."""
    together: tuple[str, ...] = ()
    if action_encoder.is_enumerable:
        shapes, n_values = encoder.shapes, action_encoder.n_choices
        add_body = partial(template.critic_body, observation=observation, features=features)
    else:
        shapes, n_values = with_taken_action(encoder.shapes, action_encoder.size), 1
        together = template.twins_share(observation, features)
        add_body = partial(template.action_value_body, observation=observation, features=features, action=TAKEN_ACTION)

    def valued(graph: GraphBuilder, latent: str) -> InferenceBlock:
        value = add_linear(graph, "value", graph.require_vector(latent), n_values, VALUE_HEAD_GAIN)
        return graph.build({"value": value})

    graphs = [GraphBuilder(shapes, template.init) for _ in range(N_TWINS)]
    if not together:
        twins = [valued(graph, add_body(graph)) for graph in graphs]
        return ActionValueCritic(encoder, action_encoder, twins)
    latent = add_body(graphs[0])
    shared, first, second = graphs[0].split(together)
    twins = [valued(first, latent), valued(second, add_body(second))]
    return ActionValueCritic(encoder, action_encoder, twins, shared)


def _key_networks(
    observation: spaces.Dict,
    inputs: Inputs,
    distribution: ProductDistribution,
    template: Template,
    *,
    with_critic: bool,
    biases: Mapping[str, Tensor],
) -> KeyNetworks:
    """The policy of one policy key, and its critic where the policy keys do not share one."""
    masks, features, encoder = inputs
    shapes = encoder.shapes
    mask_shapes = {name: shapes[name] for name in masks.values()}

    body = GraphBuilder(shapes, template.init)
    latent = body.require_vector(template.policy_body(body, observation, features))
    if template.shares_body(observation, features):
        shared = body.build([latent])
        latent_shape = {latent: body.shapes[latent]}
        policy_graph = GraphBuilder({**latent_shape, **mask_shapes}, template.init)
        critic_graph, critic_latent = GraphBuilder(latent_shape, template.init), latent
    else:
        up_to = template.shared_blocks(observation, features)
        shared, policy_graph, critic_graph = None, body, GraphBuilder(shapes, template.init)
        if up_to:
            shared, policy_graph, critic_graph = body.split(up_to)
        if with_critic:
            critic_latent = critic_graph.require_vector(template.critic_body(critic_graph, observation, features))
    policy = policy_graph.build(add_heads(policy_graph, latent, distribution, masks, biases))
    if not with_critic:
        return KeyNetworks(encoder=encoder, policy=policy, critic=None, shared=shared)
    value = add_linear(critic_graph, "value", critic_latent, 1, VALUE_HEAD_GAIN)
    return KeyNetworks(encoder=encoder, policy=policy, critic=critic_graph.build({"value": value}), shared=shared)


def add_heads(
    graph: GraphBuilder,
    latent: str,
    distribution: ProductDistribution,
    masks: Mapping[str, str],
    biases: Mapping[str, Tensor],
    *,
    values_actions: bool = False,
) -> dict[str, str]:
    """Linear heads, with initial biases where there are any, masked where there is a mask; returns head name to key.

    Args:
        values_actions: the critic values actions, as that of SAC; distributions may choose their constants by that.
    """
    outputs = {}
    for head, (n_logits,) in distribution.logits_shapes().items():
        n_constants = constant_logits(distribution, head, values_actions)
        outputs[head] = add_linear(graph, f"{head}_logits", latent, n_logits, POLICY_HEAD_GAIN, n_constants)
        graph.name_head(f"{head}_logits", head)
        if head in biases:
            graph.set_bias(f"{head}_logits", biases[head])
        if head in masks:
            name = f"{head}_masking"
            outputs[head] = graph.add(name, ActionMasking, (outputs[head], masks[head]), f"model/{name}")
    return outputs


def constant_logits(distribution: ProductDistribution, head: str, values_actions: bool) -> int:
    """How many of the last logits of a head read no observation, where its distribution says so by a method."""
    constants = getattr(distribution.heads[head], "constant_logits", None)
    return 0 if constants is None else int(constants(values_actions))


def add_linear(graph: GraphBuilder, name: str, latent: str, units: int, gain: float, constants: int = 0) -> str:
    """A linear layer behind the vector `latent`, its last units `constants`; returns the key of its output."""
    options = LinearOutputOptions(output_units=units, constant_units=constants)
    return graph.add(name, partial(LinearOutput, options=options), (latent,), f"model/{name}", gain)
