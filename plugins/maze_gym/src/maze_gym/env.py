"""One Gymnasium environment as a flat `StructuredEnv`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from maze_gym.making import cloned, make_gym_env
from maze_gym.masks import INFO_KEY, find_mask_reader, mask_in_observation, mask_method, refuse_unread_mask
from maze_gym.options import GymOptions
from maze_gym.outside import OutsideGymEnv
from maze_gym.padding import Padding
from maze_gym.returned import of_reset, require_reset_arguments
from maze_gym.space_adapter import SpaceAdapter
from maze_kernel.contracts.env import Action, ActorID, Observation
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.outside import Outside, Reply
from maze_runtime.env.returned import wrong_result


def make_env(options: GymOptions) -> GymEnv:
    """The target of the component "gym"."""
    padding = Padding(
        max_nodes=options.max_nodes,
        max_edges=options.max_edges,
        max_items=options.max_items,
        max_words=options.max_words,
        words=options.words,
    )
    return GymEnv(make_gym_env(options), action_mask=options.action_mask, padding=padding)


def adapt(env: object) -> GymEnv | None:
    """Any gymnasium.Env that an import path or a factory made, with the mask found as `action_mask = "auto"` does."""
    return GymEnv(env) if isinstance(env, gymnasium.Env) else None


class GymEnv(FlatEnv):
    """A Gymnasium environment with Dict spaces and, where it has them, action masks.

    Finding a mask in `info` or a method takes one unseeded reset here.

    Args:
        env: the environment; closed with this one.
        action_mask: see `GymOptions.action_mask`.
        padding: of Graph, Sequence and Text observations.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, action_mask: str = "auto", padding: Padding | None = None
    ) -> None:
        self.env = env
        self._observations = SpaceAdapter(env.observation_space, "observation", padding or Padding())
        self._actions = SpaceAdapter(env.action_space, "action")
        self._observation_key, self._action_key = self._observations.decoded_key, self._actions.encoded_key
        keys = self._observations.outer.spaces
        self._masks = find_mask_reader(env, action_mask, keys, self._actions.outer, lambda: of_reset(env.reset())[1])
        masks = self._masks.spaces if self._masks is not None else {}
        wants = action_mask == "auto" and not mask_in_observation(keys, self._actions.outer)
        self._refuses_masks = self._masks is None and wants
        self.structured_spaces = flat_spaces(spaces.Dict({**keys, **masks}), self._actions.outer)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        try:
            result = self.env.reset(seed=seed, options=options)
        except TypeError:
            require_reset_arguments(self.env)
            raise
        raw, info = of_reset(result)
        observation = self._observations.decode(raw)
        if self._masks is not None:
            self._masks.add_to(observation, info, False)
        elif self._refuses_masks and INFO_KEY in info:
            refuse_unread_mask(info, self._actions.outer)
        return observation, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one step."""
        encoded = self._actions.encode(action) if self._action_key is None else action[self._action_key]
        result = self.env.step(encoded)
        try:
            raw, reward, terminated, truncated, info = result
            has_mask = INFO_KEY in info
        except (TypeError, ValueError):
            raise wrong_result("step", result) from None
        key = self._observation_key
        observation = self._observations.decode(raw) if key is None else {key: raw}
        if self._masks is not None:
            self._masks.add_to(observation, info, bool(terminated or truncated))
        elif has_mask and self._refuses_masks:
            refuse_unread_mask(info, self._actions.outer)
        return observation, reward, terminated, truncated, info  # type: ignore[return-value]

    def clone_from(self, other: GymEnv) -> None:
        """Go on from where another environment is, with its random state; nothing is drawn.

        Raises:
            EnvError: it cannot be copied, as simulations outside of Python.
        """
        self.env = cloned(other.env)
        self._masks = copy.copy(other._masks)
        if self._masks is not None and self._masks.method is not None:
            self._masks.method = mask_method(self.env)

    def detach(self, outside: Outside) -> None:
        """Let observations come from outside; a mask that a method gave comes in `info` from now on."""
        self.env.close()
        self.env = OutsideGymEnv(self.env, outside)
        if self._masks is not None:
            self._masks.method = None

    def preview(self, reply: Reply) -> Observation:
        """The observation that a reply from outside gives."""
        observation = self._observations.decode(reply.maze_state)
        if self._masks is not None:
            self._masks.add_to(observation, reply.info, reply.ends_episode)
        return observation

    def is_outside_observation(self, observation: Any, actor: ActorID | None = None) -> bool:
        """Whether this is an observation of the Gymnasium environment itself: no dict by other names than its own."""
        own = self.env.observation_space
        return not isinstance(observation, Mapping) or (
            isinstance(own, spaces.Dict) and observation.keys() == own.spaces.keys()
        )

    def outside_action(self, action: Action, actor: ActorID | None = None) -> Any:
        """The action in the Gymnasium environment's own space."""
        return self._actions.encode(action)

    def render(self) -> Any:
        """The environment's own drawing, as its `render_mode` says."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
