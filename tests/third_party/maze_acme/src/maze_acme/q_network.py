"""The model "acme-q-network": Q(s, ·) for one Discrete action, and the way it acts, ε-greedy.

It has no distribution and no state value; all that Maze knows of its way to act is `make_policy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_acme.options import QNetworkOptions
from maze_kernel.contracts.model import ModelContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import SpaceError


class QNetwork(torch.nn.Module):
    """One hidden layer over all arrays of a flat observation.

    Raises:
        SpaceError: the environment has more than one actor, or another action than one Discrete.
    """

    def __init__(self, context: ModelContext, options: QNetworkOptions) -> None:
        super().__init__()
        self.spaces = context.spaces
        self.distributions: dict[str, Any] = {}
        self.head, self._space = _only_head(context)
        self._epsilon = options.epsilon
        (self.policy_key,) = context.spaces.policy_keys
        self._names = sorted(context.spaces.observation[self.policy_key].spaces)
        shapes = [context.spaces.observation[self.policy_key][name].shape or () for name in self._names]
        n_inputs = sum(int(np.prod(shape)) for shape in shapes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)
            self._layers = torch.nn.Sequential(
                torch.nn.Linear(n_inputs, options.hidden_units),
                torch.nn.Tanh(),
                torch.nn.Linear(options.hidden_units, int(self._space.n)),
            )

    def forward(self, observation: Mapping[str, np.ndarray]) -> Tensor:
        """(B, A) values of all actions of (B, …) arrays."""
        arrays = [np.asarray(observation[name], np.float32).reshape(len(observation[name]), -1) for name in self._names]
        values: Tensor = self._layers(torch.from_numpy(np.concatenate(arrays, axis=1)))
        return values

    def columns(self, action: ArrayDict) -> Tensor:
        """(B,) which column of the values each action is."""
        return torch.from_numpy(np.asarray(action[self.head]) - int(self._space.start))

    def actions(self, columns: np.ndarray) -> ArrayDict:
        """The actions that (B,) columns stand for."""
        return {self.head: (columns + int(self._space.start)).astype(self._space.dtype)}

    def make_policy(self, seed: int) -> EpsilonGreedy:
        """Explores as the options say; a trainer sets `epsilon` of the policy that it asks for."""
        return EpsilonGreedy(self, seed, self._epsilon)

    def policy_state_dict(self) -> dict[str, Tensor]:
        """All of it."""
        return self.state_dict()


class EpsilonGreedy:
    """The action of greatest value; with probability `epsilon` any action, unless it is to be deterministic."""

    def __init__(self, model: QNetwork, seed: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self._model = model
        self.seed(seed)

    def act(self, policy_key: str, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions of (n,) environments."""
        with torch.inference_mode():
            values = self._model(group.observation).numpy()
        columns = values.argmax(axis=-1)
        if not deterministic:
            explores = self._rng.random(len(columns)) < self.epsilon
            columns = np.where(explores, self._rng.integers(values.shape[-1], size=len(columns)), columns)
        return self._model.actions(columns)

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Nothing is remembered."""

    def seed(self, seed: int) -> None:
        """Begin the random stream anew."""
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Random state and exploration."""
        return {"rng": self._rng.bit_generator.state, "epsilon": self.epsilon}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = state["rng"]
        self.epsilon = state["epsilon"]


def _only_head(context: ModelContext) -> tuple[str, spaces.Discrete]:
    heads = [(name, leaf) for space in context.spaces.action.values() for name, leaf in space.spaces.items()]
    name, leaf = heads[0]
    if context.spaces.is_flat and len(heads) == 1 and isinstance(leaf, spaces.Discrete):
        return name, leaf
    raise SpaceError(
        "Q-learning chooses among the actions of one Discrete space",
        received=", ".join(f"{name}: {leaf}" for name, leaf in heads),
        expected="a flat environment with one Discrete action",
        owner="maze-acme",
    )
