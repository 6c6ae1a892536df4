"""Names for the parts of environments whose spaces are no Dicts."""

from __future__ import annotations

from typing import Any

import attrs
from gymnasium import spaces

from maze_kernel.contracts.env import Action, Observation, PolicyKey, StructuredEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.options import DictActionOptions, DictObservationOptions


class DictObservation(EnvWrapper):
    """Gives observations a name: a single one `key`, those of a Tuple `key_0`, `key_1`, …; a Dict stays.

    An env wrapper, because a batch is made of Dicts. Gymnasium environments have been given names already.
    """

    def __init__(self, env: StructuredEnv, options: DictObservationOptions) -> None:
        super().__init__(env)
        inner = env.structured_spaces
        self._names = {key: _names(space, options.key) for key, space in inner.observation.items()}
        observation = {key: _named_space(space, self._names[key]) for key, space in inner.observation.items()}
        self.structured_spaces = attrs.evolve(inner, observation=observation)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._named(self.env.actor_id().step_key, observation), info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._named(self.env.actor_id().step_key, observation), reward, terminated, truncated, info

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as they are seen outside."""
        observation, action = super().to_spaces(policy_key, maze_state, maze_action)
        return self._named(policy_key, observation), action

    def _named(self, key: PolicyKey, value: Any) -> Observation:
        return _named(value, self._names[key])


class DictAction(EnvWrapper):
    """Gives actions a name: a single one `key`, those of a Tuple `key_0`, `key_1`, …; a Dict stays."""

    def __init__(self, env: StructuredEnv, options: DictActionOptions) -> None:
        super().__init__(env)
        inner = env.structured_spaces
        self._inner = inner.action
        self._names = {key: _names(space, options.key) for key, space in inner.action.items()}
        action = {key: _named_space(space, self._names[key]) for key, space in inner.action.items()}
        self.structured_spaces = attrs.evolve(inner, action=action)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        key = self.env.actor_id().step_key
        names = self._names[key]
        if names is None:
            return self.env.step(action)
        inner: Any = action[names[0]]
        if isinstance(self._inner[key], spaces.Tuple):
            inner = tuple(action[name] for name in names)
        return self.env.step(inner)

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as they are seen outside."""
        observation, action = super().to_spaces(policy_key, maze_state, maze_action)
        return observation, None if action is None else _named(action, self._names[policy_key])


def _names(space: spaces.Space[Any], key: str) -> tuple[str, ...] | None:
    """None for a Dict, which has names."""
    if isinstance(space, spaces.Dict):
        return None
    return tuple(f"{key}_{i}" for i in range(len(space.spaces))) if isinstance(space, spaces.Tuple) else (key,)


def _named_space(space: Any, names: tuple[str, ...] | None) -> spaces.Dict:
    if names is None:
        unchanged: spaces.Dict = space
        return unchanged
    return spaces.Dict(_named(tuple(space.spaces) if isinstance(space, spaces.Tuple) else space, names))


def _named(value: Any, names: tuple[str, ...] | None) -> dict[str, Any]:
    if names is None:
        named: dict[str, Any] = value
        return named
    return dict(zip(names, value if isinstance(value, tuple) else (value,), strict=True))
