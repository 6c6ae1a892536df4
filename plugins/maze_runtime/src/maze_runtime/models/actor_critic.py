"""The torch actor-critic that model templates assemble: policy networks and critics by policy key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.networks import NetworkGraph
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import MazeError
from maze_runtime.models.action_distribution import ProductDistribution, native_sampler_of, one_where_alike
from maze_runtime.models.action_value_critic import ActionValueCritic
from maze_runtime.models.agent_networks import AgentNetworks, mirror_by_agent
from maze_runtime.models.graph_building import count_parameters, graph_of
from maze_runtime.models.head_distributions import head_layers
from maze_runtime.models.module_names import module_names
from maze_runtime.models.native_evaluation import NativeEvaluation
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.models.recurrence import CRITIC_ROLE, next_state_name, state_shapes_of
from maze_runtime.models.recurrent_mirror import RecurrentMirror, mirror_with_states
from maze_runtime.models.same_operations import hooks_of, runs_same_operations, same_operations
from maze_runtime.models.shared_action_values import SharedActionValueCritic
from maze_runtime.models.shared_critic import SharedStateCritic
from maze_runtime.models.tensor_dict import TensorDict


@attrs.frozen(kw_only=True)
class KeyNetworks:
    """The networks of one policy key; each maps a dict of tensors to a dict of tensors, or is an `AgentNetworks`.

    Attributes:
        encoder: from the space's dtype to floats.
        policy: encoded observation (and what `shared` gives) to logits (B, L) by head name.
        critic: the same input to {"value": (B, 1)}; or an `ActionValueCritic`, which encodes for itself; None: the
            critic that all policy keys share.
        shared: encoded observation to features for both, computed once; None: they share nothing.
    """

    encoder: ObservationEncoder
    policy: nn.Module
    critic: nn.Module | None
    shared: nn.Module | None = None


@same_operations
class StructuredActorCritic(nn.Module):
    """Implements `ActorCritic` (or `ActionValueModel`) with networks by policy key.

    All agents of a key share its networks unless they are `AgentNetworks`; only these read `agent_id`. A network that
    offers `make_mirror() -> (ArrayDict -> ArrayDict) | None` is evaluated in NumPy during rollouts.

    Args:
        spaces: of the environment.
        distributions: policy key to the distribution over its Dict action; those that are alike become one.
        networks: policy key to its networks.
        critic_kind: see `ActorCritic`.
        shared_critic: of the policy keys whose `KeyNetworks.critic` is None.
    """

    def __init__(
        self,
        spaces: StructuredSpaces,
        distributions: Mapping[PolicyKey, ProductDistribution],
        networks: Mapping[PolicyKey, KeyNetworks],
        *,
        critic_kind: str = "shared-state",
        shared_critic: SharedStateCritic | None = None,
    ) -> None:
        super().__init__()
        self.critic_kind = critic_kind
        self.notes: tuple[str, ...] = ()
        self._wants_native = False
        self.spaces = spaces
        self.distributions = one_where_alike(distributions)
        self._encoders = {key: parts.encoder for key, parts in networks.items()}
        # ModuleDict refuses dots and the names of its own methods, so its keys get a prefix.
        names = [f"key_{name}" for name in module_names(list(networks))]
        named = list(zip(names, networks.values(), strict=True))
        # Plain dicts beside the registered ones: reading a ModuleDict costs microseconds a call.
        self._shared = {key: parts.shared for key, parts in networks.items() if parts.shared is not None}
        self._policy = {key: parts.policy for key, parts in networks.items()}
        self._critic = {key: parts.critic for key, parts in networks.items() if parts.critic is not None}
        self.shared = nn.ModuleDict({name: parts.shared for name, parts in named if parts.shared is not None})
        self.policies = nn.ModuleDict({name: parts.policy for name, parts in named})
        self.critics = nn.ModuleDict({name: parts.critic for name, parts in named if parts.critic is not None})
        self._states = _states_by_role(networks)
        # In a tuple, because a module that is an attribute too would be registered twice.
        self._shared_critic: tuple[SharedStateCritic, ...] = () if shared_critic is None else (shared_critic,)
        views = [own for own in self._critic.values() if isinstance(own, SharedActionValueCritic)]
        if shared_critic is not None or views:
            self.critics["shared"] = views[0].networks if shared_critic is None else shared_critic

    def logits(self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None) -> TensorDict:
        """Head name to (B, L) logits, masks applied."""
        features = self._features(policy_key, observation, agent_id)
        return self._logits(policy_key, features, agent_id)

    def value(self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None) -> Tensor:
        """State values, (B,)."""
        return self._value(policy_key, self._features(policy_key, observation, agent_id), agent_id)

    def logits_and_value(
        self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None
    ) -> tuple[TensorDict, Tensor]:
        """Both in one pass; the encoding and shared layers run once."""
        features = self._features(policy_key, observation, agent_id)
        return self._logits(policy_key, features, agent_id), self._value(policy_key, features, agent_id)

    def logits_and_values(
        self, observations: Mapping[PolicyKey, TensorDict], agent_ids: Mapping[PolicyKey, Tensor]
    ) -> tuple[dict[PolicyKey, TensorDict], Tensor]:
        """Both for rows of several policy keys; a critic that they share runs once. See `EvaluatesKeysTogether`."""
        features = {key: self._features(key, own, agent_ids[key]) for key, own in observations.items()}
        logits = {key: self._logits(key, own, agent_ids[key]) for key, own in features.items()}
        if self._shared_critic and not any(key in self._critic for key in features):
            return logits, self._shared_critic[0](features)["value"].squeeze(-1)
        return logits, torch.cat([self._value(key, own, agent_ids[key]) for key, own in features.items()])

    def arranged(self, policy_key: PolicyKey, observation: TensorDict) -> TensorDict:
        """See `ArrangesObservations`."""
        return self._encoders[policy_key].arranged(observation)

    def shares_layers(self, policy_key: PolicyKey) -> bool:
        """Whether policy and critic have layers in common, which `logits_and_value` runs once."""
        return policy_key in self._shared

    def state_shapes(self, policy_key: PolicyKey) -> dict[str, tuple[int, ...]]:
        """See `RecurrentModel`; empty for feed-forward networks."""
        states = self._states.get(policy_key, {})
        return {f"{role}:{name}": shape for role, own in states.items() for name, shape in own.items()}

    def advance(
        self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None = None, *, with_value: bool = True
    ) -> tuple[TensorDict, Tensor | None, TensorDict]:
        """Logits, values (None without `with_value`) and the states after each row; see `RecurrentModel`."""
        after: TensorDict = {}
        features = self._features(policy_key, observation, agent_id, after)
        logits = self._logits(policy_key, features, agent_id, after)
        return logits, self._value(policy_key, features, agent_id, after) if with_value else None, after

    def numpy_logits(self, policy_key: PolicyKey) -> Callable[..., ArrayDict] | None:
        """`logits` in NumPy for float32 weights on the CPU; None where a block has no such form.

        Ask after the last move of the parameters to another device or dtype. In-place updates are followed.
        """
        policy, shared = self._policy[policy_key], self._shared.get(policy_key)
        chain = [policy] if shared is None else [shared, policy]
        if not _can_be_mirrored(chain) or self._acting_states(policy_key):
            return None
        if not isinstance(policy, AgentNetworks):
            return _mirror_chain(self._encoders[policy_key], chain)
        agents = [_mirror_chain(self._encoders[policy_key], own) for own in _by_agent(chain, len(policy.networks))]
        mirrors = [mirror for mirror in agents if mirror is not None]
        return mirror_by_agent(mirrors) if len(mirrors) == len(agents) else None

    def n_agent_networks(self, policy_key: PolicyKey) -> int:
        """How many agents of a key act by networks of their own; 0: all share one."""
        parts = (self._policy[policy_key], self._shared.get(policy_key))
        return max(len(own.networks) if isinstance(own, AgentNetworks) else 0 for own in parts)

    def native_evaluation(self, policy_key: PolicyKey) -> NativeEvaluation | None:
        """See `EvaluatesOutsideTorch`."""
        policy, shared, critic = (own.get(policy_key) for own in (self._policy, self._shared, self._critic))
        networks = [own for own in (shared, policy, critic) if own is not None]
        if critic is None or not _can_be_mirrored(networks) or not all(map(_is_native, networks)):
            return None
        if not runs_same_operations(self.modules()) or any(hooks_of(self)):
            return None  # somebody's own class may compute more than its blocks
        encode = self._encoders[policy_key].encode_numpy
        of_policy, of_critic = _mirror_of(policy), _mirror_of(critic)
        if of_policy is None or of_critic is None:
            return None
        return NativeEvaluation(encode, None if shared is None else _mirror_of(shared), of_policy, of_critic)

    def prepare_for_compilation(self) -> None:
        """Let actions be drawn in C++ from now on, where that is faster."""
        self._wants_native = True

    def native_sampler(self, policy_key: PolicyKey) -> Callable[[ArrayDict, np.random.Generator], ArrayDict] | None:
        """See `SamplesNatively`."""
        return native_sampler_of(self.distributions[policy_key]) if self._wants_native else None

    def numpy_advance(self, policy_key: PolicyKey) -> RecurrentMirror | None:
        """See `AdvancesInNumPy`."""
        chain = {"shared": self._shared.get(policy_key), "policy": self._policy[policy_key]}
        networks = {role: network for role, network in chain.items() if network is not None}
        states = self._acting_states(policy_key)
        if not states or not _can_be_mirrored(networks.values()):
            return None
        mirrors = {role: _mirror_of(network) for role, network in networks.items()}
        found = {role: mirror for role, mirror in mirrors.items() if mirror is not None}
        whole = len(found) == len(networks)
        return mirror_with_states(self._encoders[policy_key].encode_numpy, found, states) if whole else None

    def action_value_critic(self, policy_key: PolicyKey) -> ActionValueCritic:
        """The twin Q networks of one policy key.

        Raises:
            MazeError: the model has state values instead.
        """
        critic = self._critic.get(policy_key)
        if not isinstance(critic, ActionValueCritic):
            raise MazeError("this model values states, not actions", owner="maze-runtime")
        return critic

    def network_graphs(self) -> tuple[NetworkGraph, ...]:
        """What every network is made of, policies first; shared layers are shown in both that use them, and noted."""
        policies = [self._graph_of_policy(key) for key in self._policy]
        joined = [graph_of("critic", "all", [one.network], one.shapes, ["value"]) for one in self._shared_critic]
        views = [key for key, own in self._critic.items() if isinstance(own, SharedActionValueCritic)]
        critics = [self._graph_of_critic(key) for key in self._critic if key not in views[1:]]
        return (*policies, *critics, *joined)

    def policy_state_dict(self) -> dict[str, Tensor]:
        """State without the critics, names as in `state_dict()`: load it with `strict=False`."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("critics.")}

    def parameters_by_key(self) -> dict[str, dict[PolicyKey, list[nn.Parameter]]]:
        """See `GroupsParameters`."""
        policies = {
            key: [*(self._shared[key].parameters() if key in self._shared else ()), *policy.parameters()]
            for key, policy in self._policy.items()
        }
        return {"policy": policies, "critic": {key: list(own.parameters()) for key, own in self._critic.items()}}

    def head_layers(self, policy_key: PolicyKey) -> dict[str, list[str]]:
        """See `NamesHeadLayers`."""
        name = dict(zip(self._policy, self.policies, strict=True))[policy_key]
        found = head_layers(self._policy[policy_key])
        return {head: [f"policies.{name}.{path}" for path in paths] for head, paths in found.items()}

    def make_policy(self, seed: int) -> Policy:
        """A policy that samples from the distributions; a model with another acting rule overrides it."""
        return NetworkPolicy(self, seed)  # type: ignore[arg-type]

    def _acting_states(self, policy_key: PolicyKey) -> dict[str, dict[str, Any]]:
        """The states by role without the critic's."""
        return {role: own for role, own in self._states.get(policy_key, {}).items() if role != CRITIC_ROLE}

    def _features(
        self, policy_key: PolicyKey, observation: TensorDict, agent_id: Tensor | None, after: TensorDict | None = None
    ) -> TensorDict:
        encoded = self._encoders[policy_key].encode(observation)
        shared = self._shared.get(policy_key)
        if shared is None:
            return encoded
        return {**encoded, **self._through("shared", shared, policy_key, encoded, agent_id, after)}

    def _logits(
        self, policy_key: PolicyKey, features: TensorDict, agent_id: Tensor | None, after: TensorDict | None = None
    ) -> TensorDict:
        return self._through("policy", self._policy[policy_key], policy_key, features, agent_id, after)

    def _through(
        self,
        role: str,
        network: nn.Module,
        policy_key: PolicyKey,
        inputs: TensorDict,
        agent_id: Tensor | None,
        after: TensorDict | None,
    ) -> TensorDict:
        """A network's outputs; one with state reads it from `inputs` and leaves the next one in `after`."""
        states = self._states.get(policy_key)
        if states is None:
            return _run(network, inputs, agent_id)
        all_states = {f"{one}:{name}" for one, own in states.items() for name in own}
        read = {name: tensor for name, tensor in inputs.items() if name not in all_states}
        outputs = _run(network, read | {name: inputs[f"{role}:{name}"] for name in states.get(role, ())}, agent_id)
        if role not in states:
            return outputs
        following = {f"{role}:{name}": outputs.pop(next_state_name(name)) for name in states[role]}
        if after is not None:
            after |= following
        return outputs

    def _graph_of_policy(self, key: PolicyKey) -> NetworkGraph:
        heads = list(self.distributions[key].logits_shapes())
        chain, note = self._chain(key, self._policy[key])
        return graph_of("policy", key, chain, self._encoders[key].shapes, heads, note)

    def _graph_of_critic(self, key: PolicyKey) -> NetworkGraph:
        critic, shapes = self._critic[key], self._encoders[key].shapes
        if isinstance(critic, ActionValueCritic):
            note = f"one of {len(critic.networks)} alike"
            whose = "all" if isinstance(critic, SharedActionValueCritic) else key
            alone = [] if critic.shared is None else [critic.shared]
            return graph_of("action-values", whose, [*alone, critic.networks[0]], critic.shapes, ["value"], note)
        chain, note = self._chain(key, critic)
        return graph_of("critic", key, chain, shapes, ["value"], note)

    def _chain(self, policy_key: PolicyKey, network: nn.Module) -> tuple[list[nn.Module], str]:
        """What runs one after the other, and a note; agents' networks are alike, so the first one stands for all."""
        shared = self._shared.get(policy_key)
        chain: list[nn.Module] = [network] if shared is None else [shared, network]
        notes = []
        if isinstance(network, AgentNetworks):
            notes.append(f"one of {len(network.networks)} alike, one an agent")
            chain = list(_by_agent(chain, 1)[0])
        if shared is not None:
            notes.insert(0, f"{count_parameters(chain[0]):,} of them shared by policy and critic")
        return chain, " · ".join(notes)

    def _value(
        self, policy_key: PolicyKey, features: TensorDict, agent_id: Tensor | None, after: TensorDict | None = None
    ) -> Tensor:
        critic = self._critic.get(policy_key)
        if isinstance(critic, ActionValueCritic):
            raise MazeError("this model values actions, not states", owner="maze-runtime")
        if critic is not None:
            return self._through("critic", critic, policy_key, features, agent_id, after)["value"].squeeze(-1)
        (shared_critic,) = self._shared_critic
        value: Tensor = shared_critic({policy_key: features})["value"]
        return value.squeeze(-1)


def _states_by_role(networks: Mapping[PolicyKey, KeyNetworks]) -> dict[PolicyKey, dict[str, dict[str, Any]]]:
    """Policy key to role to the states of its network; only what carries state is in it."""
    found: dict[PolicyKey, dict[str, dict[str, Any]]] = {}
    for key, parts in networks.items():
        for role in ("shared", "policy", "critic"):
            shapes = state_shapes_of(getattr(parts, role))
            if shapes:
                found.setdefault(key, {})[role] = shapes
    return found


def _run(network: nn.Module, inputs: TensorDict, agent_id: Tensor | None) -> TensorDict:
    outputs: TensorDict = network(inputs, agent_id) if isinstance(network, AgentNetworks) else network(inputs)
    return outputs


def _by_agent(chain: list[Any], n_agents: int) -> list[list[Any]]:
    return [
        [module.networks[agent] if isinstance(module, AgentNetworks) else module for module in chain]
        for agent in range(n_agents)
    ]


def _can_be_mirrored(networks: Iterable[nn.Module]) -> bool:
    """Float32 weights on the CPU only."""
    tensors = [tensor for network in networks for tensor in network.parameters()]
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)


def _mirror_of(module: Any) -> Callable[[ArrayDict], ArrayDict] | None:
    make = getattr(module, "make_mirror", None)
    mirror: Callable[[ArrayDict], ArrayDict] | None = make() if make is not None else None
    return mirror


def _is_native(module: Any) -> bool:
    ask = getattr(module, "is_native", None)
    return ask is not None and bool(ask())


def _mirror_chain(encoder: ObservationEncoder, chain: list[Any]) -> Callable[..., ArrayDict] | None:
    """The policy, or what it shares with the critic and then the policy, in NumPy; None without such a form."""
    encode = encoder.encode_numpy
    mirrors: list[Any] = [_mirror_of(module) for module in chain]
    if any(mirror is None for mirror in mirrors):
        return None
    if len(mirrors) == 1:
        policy = mirrors[0]
        return lambda observation, _agent_id=None: policy(encode(observation))
    shared, policy = mirrors

    def run(observation: ArrayDict, _agent_id: np.ndarray | None = None) -> ArrayDict:
        encoded = encode(observation)
        logits: ArrayDict = policy({**encoded, **shared(encoded)})
        return logits

    return run
