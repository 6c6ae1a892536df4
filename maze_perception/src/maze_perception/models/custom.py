"""The `custom` model: policy and critic networks are classes of the user's, by import path.

What surrounds them stays Maze's: encoding of observations, masks, distributions, twins. No class needs a base of ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import RequestError
from maze_perception.block import Shape
from maze_perception.blocks.general import ActionMasking
from maze_perception.inference import InferenceBlock
from maze_perception.models.assembly import N_TWINS, find_inputs
from maze_perception.models.masks import action_distributions
from maze_perception.models.user_network import UserNetwork
from maze_perception.options import CustomOptions, NetworkOptions
from maze_runtime.models.action_distribution import ProductDistribution
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.action_value_critic import TAKEN_ACTION, ActionValueCritic
from maze_runtime.models.actor_critic import KeyNetworks, StructuredActorCritic


def make_custom_model(context: ModelContext, options: CustomOptions) -> StructuredActorCritic:
    """The target of the model `custom`.

    Raises:
        RequestError: no network for a policy key, a path that cannot be imported, or a constructor that refuses.
        BlockError: a network that fails on zeros, or gives other tensors than it should.
    """
    spaces_ = context.spaces
    _check_keys(spaces_.policy_keys, options)
    distributions = action_distributions(context, options.distributions)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        networks = {key: _key_networks(context, options, key, own) for key, own in distributions.items()}
    kind = "state-action" if context.critic == "state-action" else options.critic_kind
    return StructuredActorCritic(spaces_, distributions, networks, critic_kind=kind)


def _key_networks(
    context: ModelContext, options: CustomOptions, key: PolicyKey, distribution: ProductDistribution
) -> KeyNetworks:
    """The user's policy and critic; what the policy gives besides logits runs once, for both."""
    action = context.spaces.action[key]
    masks, features, encoder = find_inputs(context.spaces.observation[key], action)
    shapes = {name: tuple(encoder.shapes[name]) for name in features}
    logits_shapes = distribution.logits_shapes()
    policy = UserNetwork.build(_options_of(options, "policy", key), shapes, "action_logits_shapes", logits_shapes)
    extra = {name: shape for name, shape in policy.found_shapes.items() if name not in logits_shapes}
    masked = {mask: tuple(encoder.shapes[mask]) for mask in masks.values()}
    critic_options = _options_of(options, "critic", key)

    if context.critic == "state-action":
        encoded = ActionEncoder(action)
        inputs = shapes if encoded.is_enumerable else {**shapes, TAKEN_ACTION: (encoded.size,)}
        n_values = encoded.n_choices if encoded.is_enumerable else 1
        twins = [_critic(critic_options, inputs, n_values) for _ in range(N_TWINS)]
        return KeyNetworks(
            encoder=encoder,
            policy=_policy({policy.name: policy}, {**shapes, **masked}, logits_shapes, masks),
            critic=ActionValueCritic(encoder, encoded, twins),
        )
    critic = _critic(critic_options, {**shapes, **extra}, 1)
    if not extra:
        together = _policy({policy.name: policy}, {**shapes, **masked}, logits_shapes, masks)
        return KeyNetworks(encoder=encoder, policy=together, critic=critic)
    logits = {UserNetwork.out_key(head): shape for head, shape in logits_shapes.items()}
    return KeyNetworks(
        encoder=encoder,
        policy=_policy({}, {**logits, **masked}, logits_shapes, masks),
        critic=critic,
        shared=InferenceBlock({policy.name: policy}, shapes, policy.out_keys),
    )


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


def _options_of(options: CustomOptions, role: str, key: PolicyKey) -> NetworkOptions:
    own = options.policies if role == "policy" else options.critics
    found: NetworkOptions | None = own.get(key, options.policy if role == "policy" else options.critic)
    if found is None:
        raise RequestError(
            f"the custom model has no {role} network" + (f" for policy key {key!r}" if own else ""),
            expected=f'a table [model.{role}] with use = "package.module:Class"',
            owner="maze-perception",
        )
    return found


def _check_keys(policy_keys: tuple[PolicyKey, ...], options: CustomOptions) -> None:
    for table, own in (("policies", options.policies), ("critics", options.critics)):
        for key in own:
            if key not in policy_keys:
                raise RequestError(
                    f"[model.{table}] names the policy key {key!r}, which does not exist",
                    expected=f"one of {', '.join(policy_keys)}",
                    owner="maze-perception",
                )
