"""A flat Maze environment, wrappers included, as a `gymnasium.Env` that other libraries train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredEnv
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import SpaceError
from maze_runtime.env.batching import scalar_reward, spaces_of
from maze_runtime.env.transformed import TransformedEnv


def to_gymnasium(
    env: StructuredEnv, *, transforms: Sequence[Transform] = (), training: bool = True, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """An environment that passes `gymnasium.utils.env_checker.check_env`.

    A Dict space with one key becomes the space of that key; one with several stays a Dict. Libraries that take no Dict
    are served by the wrappers `no-dict-observation`, `no-dict-action` and `no-dict-spaces`.

    Args:
        env: with one policy key and one agent; closed with the result.
        transforms: further ones, innermost first.
        training: let running statistics of the transforms see every step, and transform rewards.
        render_mode: how `env` was told to draw, e.g. "rgb_array".

    Raises:
        SpaceError: the environment is structured.
    """
    structured = spaces_of(env)
    if not structured.is_flat:
        raise SpaceError(
            "only an environment with one policy key and one agent is a gymnasium.Env",
            received=f"policy keys {', '.join(structured.policy_keys)} with agents {dict(structured.agent_counts)}",
            owner="maze-runtime: to_gymnasium",
        )
    for transform in transforms:
        transform.training = training
        env = TransformedEnv(env, transform, training)
    return _FlatAsGymnasium(env, render_mode)


class _FlatAsGymnasium(gymnasium.Env[Any, Any]):
    """See `to_gymnasium`. Arrays that are handed out are copies."""

    def __init__(self, env: StructuredEnv, render_mode: str | None) -> None:
        (key,) = env.structured_spaces.policy_keys
        self._env = env
        self._observation = env.structured_spaces.observation[key]
        self._heads = env.structured_spaces.action[key]
        self.observation_space = plain_space(self._observation)
        self.action_space = plain_space(self._heads)
        self.metadata = {"render_modes": [] if render_mode is None else [render_mode], "render_fps": 30}
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; without a seed the random state goes on."""
        super().reset(seed=seed)
        observation, info = self._env.reset(seed=seed, options=options)
        return self._plain(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        heads = action if len(self._heads.spaces) > 1 else {next(iter(self._heads.spaces)): action}
        inner = {head: _as_inner(space, heads[head]) for head, space in self._heads.spaces.items()}
        observation, reward, terminated, truncated, info = self._env.step(inner)
        return self._plain(observation), scalar_reward(reward), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        """The environment's drawing."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _plain(self, observation: Mapping[str, Any]) -> Any:
        values = {name: _as_outer(space, observation[name]) for name, space in self._observation.spaces.items()}
        return next(iter(values.values())) if len(values) == 1 else values


def plain_space(space: spaces.Dict) -> spaces.Space[Any]:
    """A Dict with one key as the space of that key; any other as it is."""
    return next(iter(space.spaces.values())) if len(space.spaces) == 1 else space


def _as_outer(space: spaces.Space[Any], value: Any) -> Any:
    """Discrete values as the space's own scalar, all others as arrays of their own."""
    array = np.array(value, space.dtype)
    return array[()] if isinstance(space, spaces.Discrete) else array


def _as_inner(space: spaces.Space[Any], value: Any) -> Any:
    """As the vector environments hand actions over: Python integers for Discrete, arrays for the rest."""
    return int(value) if isinstance(space, spaces.Discrete) else np.array(value, space.dtype)
