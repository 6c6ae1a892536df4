"""N policies with weights of their own, evaluated together: row i of a batch passes through network i.

Three ways, the fastest that works for a model is taken: a trace of the `vmap`ped network, the `vmap`ped network itself,
one member after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.func import functional_call, vmap

from maze_es.tracing import trace_in_two
from maze_kernel.env.contract import PolicyKey
from maze_kernel.env.tick import ArrayDict, Group
from maze_kernel.models.contract import ActorCritic
from maze_kernel.models.flat_parameters import FlatParameters

Function = Callable[..., tuple[Tensor, ...]]
"""(N, P) weights and (N, …) observations to (N, L) logits, in the order of names."""


class MemberNetworks(Protocol):
    """Row i of the observations through the network with row i of the weights."""

    def load(self, weights: Tensor) -> None:
        """Take the weights (N, P), in the order of `FlatParameters`."""
        ...

    def __call__(self, observations: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(N, …) observations to (N, L) logits, in the order of names."""
        ...


class Batched:
    """All members in one call of a `vmap`ped network."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._weights = weights

    def __call__(self, observations: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """See `MemberNetworks`."""
        return self._function(self._weights, *observations)


class Traced:
    """The tensor operations of a `vmap`ped network; what depends on weights alone is computed when they change."""

    def __init__(self, function: Function, weights: Tensor, observations: tuple[Tensor, ...]) -> None:
        self._prepare, self._run = trace_in_two(function, weights, observations)

    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._prepared = self._prepare(weights)

    def __call__(self, observations: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """See `MemberNetworks`."""
        logits: tuple[Tensor, ...] = self._run(*self._prepared, *observations)
        return logits


class OneByOne:
    """One member after the other, for networks that cannot be batched; leaves the model's weights as they were."""

    def __init__(self, function: Function, flat: FlatParameters) -> None:
        self._function = function
        self._flat = flat

    def load(self, weights: Tensor) -> None:
        """See `MemberNetworks.load`."""
        self._weights = weights

    def __call__(self, observations: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """See `MemberNetworks`."""
        center = self._flat.data.clone()
        try:
            rows = [self._row(i, observations) for i in range(len(self._weights))]
        finally:
            self._flat.data.copy_(center)
        return tuple(torch.cat(column) for column in zip(*rows, strict=True))

    def _row(self, index: int, observations: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self._flat.data.copy_(self._weights[index])
        return self._function(*(tensor[index : index + 1] for tensor in observations))


class MemberPolicy:
    """Implements `Policy` for N environments: environment i is played by member i, whoever of its actors decides.

    Args:
        model: gives the architecture and the action distributions; its weights are left as they are.
        flat: the perturbed weights of `model`.
        n_members: N.
        how: "traced", "vmap" or "one-by-one"; None: the fastest that agrees with one-by-one.

    Attributes:
        how: the ways that were taken, by policy key.
    """

    def __init__(self, model: ActorCritic, flat: FlatParameters, n_members: int, how: str | None = None) -> None:
        self._model = model
        self._device = flat.data.device
        self._n_members = n_members
        self.how: dict[PolicyKey, str] = {}
        self._networks: dict[PolicyKey, MemberNetworks] = {}
        self._rows = {key: _examples(space, n_members) for key, space in model.spaces.observation.items()}
        for key in model.spaces.policy_keys:
            example = self._tensors(key, self._rows[key])
            with torch.no_grad():
                self.how[key], self._networks[key] = _choose(_Logits(model, key), flat, example, how)
        self.seed(0)

    def load(self, weights: np.ndarray) -> None:
        """Take the members' weights, (N, P) float32."""
        tensor = torch.from_numpy(weights).to(self._device)
        with torch.no_grad():
            for networks in self._networks.values():
                networks.load(tensor)

    def seed(self, seed: int) -> None:
        """Restart the stream of action samples."""
        self._rng = np.random.default_rng(seed)

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Feed-forward networks carry nothing from step to step."""

    def logits(self, policy_key: PolicyKey, group: Group) -> ArrayDict:
        """Head name to (n, L), rows as in the group."""
        observation = group.observation
        if len(group.env_index) < self._n_members:
            # Every member has its row in the batch; those who do not decide now see something old, which is not used.
            observation = self._rows[policy_key]
            for name, array in observation.items():
                array[group.env_index] = group.observation[name]
        with torch.no_grad():
            logits = self._networks[policy_key](self._tensors(policy_key, observation))
        heads = self._model.distributions[policy_key].heads
        arrays = {name: tensor.cpu().numpy() for name, tensor in zip(heads, logits, strict=True)}
        if observation is group.observation:
            return arrays
        return {name: array[group.env_index] for name, array in arrays.items()}

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions (n, …) by head, rows as in the group."""
        logits = self.logits(policy_key, group)
        distribution = self._model.distributions[policy_key]
        return distribution.mode_numpy(logits) if deterministic else distribution.sample_numpy(logits, self._rng)

    def state_dict(self) -> dict[str, Any]:
        """The random state."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Any) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = state["rng"]

    def _tensors(self, key: PolicyKey, observation: ArrayDict) -> tuple[Tensor, ...]:
        names = self._model.spaces.observation[key].spaces
        tensors = tuple(torch.from_numpy(np.ascontiguousarray(observation[name])) for name in names)
        return tensors if self._device.type == "cpu" else tuple(tensor.to(self._device) for tensor in tensors)


def _examples(space: spaces.Dict, n_rows: int) -> ArrayDict:
    """Observations of the right shapes."""
    return {name: np.ones((n_rows, *(sub.shape or ())), sub.dtype) for name, sub in space.items()}


class Relay:
    """A `Policy` that hands an environment to its next member when an episode ends: environment i to i, i + N, ….

    Args:
        policy: plays N members at a time.
        weights: member numbers (n,) to their weights (n, P).
        n_members: to be played in all.
        n_envs: N.
    """

    def __init__(
        self, policy: MemberPolicy, weights: Callable[[np.ndarray], np.ndarray], n_members: int, n_envs: int
    ) -> None:
        self._policy = policy
        self._weights_of = weights
        self._n_members = n_members
        self._n_envs = n_envs
        self._member = np.arange(n_envs) - n_envs
        self._weights = np.repeat(weights(np.zeros(1, np.int64)), n_envs, axis=0)
        self.act = policy.act
        self.seed = policy.seed
        self.state_dict = policy.state_dict
        self.load_state_dict = policy.load_state_dict

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Put the next members of these environments in their places; without one the last plays on, uncounted."""
        self._member[env_index] += self._n_envs
        rows = env_index[self._member[env_index] < self._n_members]
        if len(rows):
            self._weights[rows] = self._weights_of(self._member[rows])
            self._policy.load(self._weights)


class _Logits(nn.Module):
    """A model's logits as a forward pass: observations in the order of names, logits in the order of heads."""

    def __init__(self, model: ActorCritic, key: PolicyKey) -> None:
        super().__init__()
        self.model = model
        self._key = key
        self._names = tuple(model.spaces.observation[key].spaces)
        self._heads = tuple(model.distributions[key].heads)

    def forward(self, *observations: Tensor) -> tuple[Tensor, ...]:
        logits = self.model.logits(self._key, dict(zip(self._names, observations, strict=True)))
        return tuple(logits[head] for head in self._heads)


def _stacked(network: _Logits, flat: FlatParameters) -> Function:
    """The network as a function of stacked weights."""
    trained = {id(parameter) for parameter in flat.parameters}
    names = [name for name, parameter in network.named_parameters() if id(parameter) in trained]

    def one(weights: Tensor, *observation: Tensor) -> tuple[Tensor, ...]:
        parameters = dict(zip(names, flat.split(weights), strict=True))
        logits = functional_call(network, parameters, tuple(tensor.unsqueeze(0) for tensor in observation))
        return tuple(tensor.squeeze(0) for tensor in logits)

    stacked: Function = vmap(one)
    return stacked


def _choose(
    network: _Logits, flat: FlatParameters, example: tuple[Tensor, ...], how: str | None
) -> tuple[str, MemberNetworks]:
    """The networks, and how they are evaluated; a way that fails or disagrees with one-by-one is passed over."""
    one_by_one = OneByOne(network, flat)
    # Weights unlike each other, so that a mix-up of members cannot pass.
    factors = torch.linspace(0.5, 1.5, len(example[0]), device=flat.data.device)
    weights = factors[:, None] * flat.data
    ways: dict[str, Callable[[], MemberNetworks]] = {
        "traced": lambda: Traced(_stacked(network, flat), weights, example),
        "vmap": lambda: Batched(_stacked(network, flat)),
        "one-by-one": lambda: one_by_one,
    }
    if how is not None:
        return how, ways[how]()
    one_by_one.load(weights)
    expected = one_by_one(example)
    for name in ("traced", "vmap"):
        try:
            networks = ways[name]()
            networks.load(weights)
            agree = all(_equal(networks(example), expected) for _ in range(2))
        except Exception:  # whatever torch raises for an operation it cannot trace or batch
            continue
        if agree:
            return name, networks
    return "one-by-one", one_by_one


def _equal(logits: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> bool:
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(logits, expected, strict=True))
