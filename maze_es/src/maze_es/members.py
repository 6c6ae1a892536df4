"""N policies with weights of their own that act together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from maze_es.networks import MemberNetworks, choose_networks
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import ActorCritic, Policy
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.network_policy import acting_states


class MemberPolicy:
    """Implements `Policy` for N environments: environment i is played by member i, whoever of its actors decides.

    Args:
        model: gives the architecture and the action distributions; its weights are left as they are.
        flat: the perturbed weights of `model`.
        n_members: N.
        how: "numpy", "traced", "vmap" or "one-by-one"; None: the fastest that agrees with one-by-one.

    Attributes:
        how: the ways that were taken, by policy key.
    """

    def __init__(self, model: ActorCritic, flat: FlatParameters, n_members: int, how: str | None = None) -> None:
        self._model = model
        self._device = flat.data.device
        self._n_members = n_members
        self.how: dict[PolicyKey, str] = {}
        self._networks: dict[PolicyKey, MemberNetworks] = {}
        self._states = acting_states(model)
        self._rows = {key: self._examples(key) for key in model.spaces.policy_keys}
        self._names = {key: tuple(rows) for key, rows in self._rows.items()}
        for key in model.spaces.policy_keys:
            example = tuple(self._rows[key].values())
            self.how[key], self._networks[key] = choose_networks(model, key, flat, self._state_names(key), example, how)
        self.seed(0)

    def load(self, weights: np.ndarray) -> None:
        """Take the members' weights, (N, P) float32."""
        tensor = torch.from_numpy(weights).to(self._device)
        for networks in self._networks.values():
            networks.load(tensor)

    def seed(self, seed: int) -> None:
        """Restart the stream of action samples."""
        self._rng = np.random.default_rng(seed)

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Forget the states of these environments; feed-forward networks have none."""
        for states in self._states.values():
            states.clear(env_index)

    def logits(self, policy_key: PolicyKey, group: Group) -> ArrayDict:
        """Head name to (n, L), rows as in the group; recurrent networks go on by one step."""
        states = self._states.get(policy_key)
        given = group.observation
        if states is not None:
            given = {**given, **states.read(group.env_index, group.agent_id)}
        inputs = given
        if len(group.env_index) < self._n_members:
            # Every member has its row in the batch; those who do not decide now see something old, which is not used.
            inputs = self._rows[policy_key]
            for name, array in inputs.items():
                array[group.env_index] = given[name]
        outputs = self._networks[policy_key](tuple(inputs[name] for name in self._names[policy_key]))
        names = (*self._model.distributions[policy_key].heads, *self._state_names(policy_key))
        arrays = dict(zip(names, outputs, strict=True))
        if inputs is not given:
            arrays = {name: array[group.env_index] for name, array in arrays.items()}
        if states is not None:
            states.write(group.env_index, group.agent_id, {name: arrays.pop(name) for name in states.names})
        return arrays

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions (n, …) by head, rows as in the group."""
        logits = self.logits(policy_key, group)
        distribution = self._model.distributions[policy_key]
        return distribution.mode_numpy(logits) if deterministic else distribution.sample_numpy(logits, self._rng)

    def _state_names(self, policy_key: PolicyKey) -> tuple[str, ...]:
        return self._states[policy_key].names if policy_key in self._states else ()

    def _examples(self, policy_key: PolicyKey) -> ArrayDict:
        """Inputs (N, …) of the right shapes: observations, then states."""
        n, space = self._n_members, self._model.spaces.observation[policy_key]
        rows = {name: np.ones((n, *(sub.shape or ())), sub.dtype) for name, sub in space.items()}
        if policy_key in self._states:
            shapes = self._states[policy_key].read(np.zeros(n, np.int64), np.zeros(n, np.int64))
            rows |= {name: np.ones_like(array) for name, array in shapes.items()}
        return rows

    def state_dict(self) -> dict[str, Any]:
        """The random state; members play whole episodes, so no other state outlives a call."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Any) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = state["rng"]


class MemberRelay:
    """A `Policy` that hands an environment to its next member when an episode ends: environment i to i, i + N, ….

    Args:
        members: take the weights of N members at a time.
        policy: acts; `members`, or what is around them.
        weights: member numbers (n,) to their weights (n, P).
        n_members: to be played in all.
        n_envs: N.
    """

    def __init__(
        self,
        members: MemberPolicy,
        policy: Policy,
        weights: Callable[[np.ndarray], np.ndarray],
        n_members: int,
        n_envs: int,
    ) -> None:
        self._members = members
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
            self._members.load(self._weights)
        self._policy.begin_episodes(env_index)
