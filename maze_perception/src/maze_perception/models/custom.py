"""The `custom` model: policy and critic networks are classes of the user's, by import path.

What surrounds them stays Maze's: encoding of observations, masks, distributions, twins. No class needs a base of ours.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.components import load_attribute
from maze_kernel.env.contract import PolicyKey
from maze_kernel.errors import RequestError
from maze_kernel.models.action_distribution import make_action_distribution
from maze_kernel.models.action_encoding import ActionEncoder
from maze_kernel.models.action_value_critic import TAKEN_ACTION, ActionValueCritic
from maze_kernel.models.actor_critic import KeyNetworks, StructuredActorCritic
from maze_kernel.models.contract import ModelContext
from maze_kernel.models.masking import mask_logits
from maze_perception.block import BlockError, Shape, TensorDict, infer_out_shapes
from maze_perception.models.assembly import N_TWINS, find_inputs
from maze_perception.options import CustomOptions, NetworkOptions


def make_custom_model(context: ModelContext, options: CustomOptions) -> StructuredActorCritic:
    """The target of the model `custom`.

    Raises:
        RequestError: no network for a policy key, a path that cannot be imported, or a constructor that refuses.
        BlockError: a network that fails on zeros, or gives other tensors than it should.
    """
    spaces_, rules = context.spaces, options.distributions
    distributions = {
        key: make_action_distribution(space, context.catalog, rules) for key, space in spaces_.action.items()
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        networks = {key: _key_networks(context, options, key, own) for key, own in distributions.items()}
    kind = "state-action" if context.critic == "state-action" else "step-state"
    return StructuredActorCritic(spaces_, distributions, networks, critic_kind=kind)


def _key_networks(context: ModelContext, options: CustomOptions, key: PolicyKey, distribution: Any) -> KeyNetworks:
    action = context.spaces.action[key]
    masks, features, encoder = find_inputs(context.spaces.observation[key], action)
    shapes = {name: tuple(encoder.shapes[name]) for name in features}
    logits_shapes = distribution.logits_shapes()
    policy = Network.build(_options_of(options, "policy", key), shapes, "action_logits_shapes", logits_shapes)
    extra = {name: shape for name, shape in policy.out_shapes.items() if name not in logits_shapes}
    critic_options = _options_of(options, "critic", key)
    if context.critic == "state-action":
        encoded = ActionEncoder(action)
        inputs = shapes if encoded.is_enumerable else {**shapes, TAKEN_ACTION: (encoded.size,)}
        n_values = encoded.n_choices if encoded.is_enumerable else 1
        twins = [Network.build(critic_options, inputs, "output_shapes", {"value": (n_values,)}) for _ in range(N_TWINS)]
        critic: nn.Module = ActionValueCritic(encoder, encoded, twins)
        return KeyNetworks(encoder=encoder, policy=Heads(policy, masks, None), critic=critic)
    critic = Network.build(critic_options, {**shapes, **extra}, "output_shapes", {"value": (1,)})
    if not extra:
        return KeyNetworks(encoder=encoder, policy=Heads(policy, masks, None), critic=critic)
    return KeyNetworks(encoder=encoder, policy=Heads(None, masks, tuple(logits_shapes)), critic=critic, shared=policy)


def _options_of(options: CustomOptions, role: str, key: PolicyKey) -> NetworkOptions:
    own: Mapping[str, NetworkOptions] = options.policies if role == "policy" else options.critics
    common: NetworkOptions | None = getattr(options, role)
    found = own.get(key, common)
    if found is None:
        raise RequestError(
            f"the custom model has no {role} network" + (f" for policy key {key!r}" if own else ""),
            expected=f'a table [model.{role}] with use = "package.module:Class"',
            owner="maze-perception",
        )
    return found


class Network(nn.Module):
    """A module of the user's, called with what it understands.

    A class whose constructor takes `obs_shapes` gets a dict of tensors; another one the tensors, one behind the other.

    Args:
        module: the user's.
        in_shapes: observation to shape of one sample.
        out_shapes: output to shape; more outputs than these are found by a pass of zeros.
        takes_dict: how it is called.
    """

    def __init__(
        self, module: nn.Module, in_shapes: Mapping[str, Shape], out_shapes: Mapping[str, Shape], takes_dict: bool
    ) -> None:
        super().__init__()
        self.module = module
        self._in_keys, self._out_keys, self._takes_dict = tuple(in_shapes), tuple(out_shapes), takes_dict
        self._was_checked = False
        self.out_shapes = self._check(in_shapes, out_shapes)

    @classmethod
    def build(
        cls, options: NetworkOptions, in_shapes: Mapping[str, Shape], out_name: str, out_shapes: Mapping[str, Shape]
    ) -> Network:
        """Import and construct the user's class; `out_name` is the argument that `out_shapes` is given as."""
        try:
            make = load_attribute(options.use)
        except (ImportError, AttributeError, ValueError) as error:
            raise RequestError(
                f"cannot import {options.use!r}: {error}",
                received=repr(options.use),
                expected='"package.module:Class"',
                owner="maze-perception",
                help="a module beside the experiment file can be imported",
            ) from error
        offered = {"obs_shapes": dict(in_shapes), out_name: dict(out_shapes)}
        accepted = {name: value for name, value in offered.items() if _accepts(make, name)}
        try:
            module = make(**accepted, **options.kwargs)
        except TypeError as error:
            raise RequestError(
                f"{options.use!r} cannot be constructed: {error}",
                received=", ".join(f"{name}={value!r}" for name, value in {**accepted, **options.kwargs}.items()),
                owner="maze-perception",
                help="its constructor may take obs_shapes and " + out_name + "; give the rest in kwargs",
            ) from error
        if not isinstance(module, nn.Module):
            raise RequestError(
                f"{options.use!r} does not make a torch.nn.Module",
                received=type(module).__name__,
                owner="maze-perception",
            )
        return cls(module, in_shapes, out_shapes, takes_dict="obs_shapes" in accepted)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, ...) tensors by name to (B, ...) tensors by name; further inputs are not read."""
        if self._takes_dict:
            result = self.module({key: inputs[key] for key in self._in_keys})
        else:
            result = self.module(*(inputs[key] for key in self._in_keys))
        return result if isinstance(result, dict) else self._named(result)

    def _named(self, result: Any) -> TensorDict:
        tensors = (result,) if isinstance(result, Tensor) else result
        if not isinstance(tensors, (tuple, list)) or len(tensors) != len(self._out_keys):
            raise BlockError(
                f"{type(self.module).__name__} gives other outputs than it was asked for",
                received=f"{len(tensors)} tensors" if isinstance(tensors, (tuple, list)) else type(result).__name__,
                expected=f"a dict, or a tensor for each of {list(self._out_keys)}",
            )
        return dict(zip(self._out_keys, tensors, strict=True))

    def _check(self, in_shapes: Mapping[str, Shape], out_shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Shapes of everything it gives, found by a pass of zeros."""
        found = _found_shapes(self, in_shapes)
        for name, shape in out_shapes.items():
            if found.get(name) != tuple(shape):
                raise BlockError(
                    f"{type(self.module).__name__} gives {name!r} in the wrong shape",
                    received=f"{found[name]}" if name in found else f"only {', '.join(map(repr, found))}",
                    expected=f"{name!r} of shape {tuple(shape)} for each sample",
                    help="build the layer from the shapes that the constructor is given",
                )
        return found


def _found_shapes(network: Network, in_shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    keys: list[str] = []
    handle = network.register_forward_hook(lambda _module, _inputs, outputs: keys.extend(outputs))
    try:
        infer_out_shapes(network, tuple(in_shapes), tuple(in_shapes.values()), ())
        names = tuple(dict.fromkeys(keys))
        return dict(
            zip(names, infer_out_shapes(network, tuple(in_shapes), tuple(in_shapes.values()), names), strict=True)
        )
    finally:
        handle.remove()


class Heads(nn.Module):
    """Logits of every head with their masks applied.

    Args:
        policy: gives the logits; None: they are among the inputs already, under these names.
        masks: head to the observation that masks it.
        names: of the heads that are taken from the inputs.
    """

    def __init__(self, policy: nn.Module | None, masks: Mapping[str, str], names: tuple[str, ...] | None) -> None:
        super().__init__()
        self.policy = policy
        self._masks, self._names = dict(masks), names

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Encoded observations (and logits) to logits by head."""
        logits = {name: inputs[name] for name in self._names or ()} if self.policy is None else self.policy(inputs)
        masked = {h: mask_logits(logits[h], inputs[m].reshape(logits[h].shape)) for h, m in self._masks.items()}
        return {**logits, **masked}


def _accepts(make: Any, name: str) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
