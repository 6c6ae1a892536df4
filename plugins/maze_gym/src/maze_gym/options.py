"""Options of the environment components "gym" and "gym-vector"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs

from maze_kernel.validators import at_least, optional


@attrs.frozen(kw_only=True)
class GymOptions:
    """Which Gymnasium environment, and how it is made."""

    id: Annotated[str, "or an object"]
    """Gymnasium id such as "CartPole-v1" or "ALE/Pong-v5", or "my_package.module:attribute" of a class or function that makes a gymnasium.Env. From Python also such a class, function or instance, which is copied for each environment."""  # noqa: E501
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    """Keyword arguments of the environment, as in `gymnasium.make(id, **kwargs)`."""
    max_episode_steps: int | None = attrs.field(default=None, validator=optional(at_least(1)))
    """Steps after which an episode is truncated, in place of the limit that its id or a wrapper `TimeLimit` around it sets; a limit that the environment counts itself still holds. Unset changes nothing."""  # noqa: E501
    render_mode: str | None = None
    """How the environment draws itself: "rgb_array" for videos, "human" for a window; unset does not draw."""
    action_mask: Literal["auto", "observation", "info", "method", "none"] = "auto"
    """Where the mask of allowed discrete actions comes from: the observation key `action_mask`, `info["action_mask"]`, a method `action_masks()`, `valid_action_mask()` or `action_mask()`; "auto" takes the first of these that exists."""  # noqa: E501
    max_nodes: int = attrs.field(default=0, validator=at_least(0))
    """Nodes of a Graph observation, at most: it becomes `observation_nodes` and `observation_edge_links`, padded to this size, with `observation_node_mask`."""  # noqa: E501
    max_edges: int = attrs.field(default=0, validator=at_least(0))
    """Edges of a Graph observation, at most."""
    max_items: int = attrs.field(default=0, validator=at_least(0))
    """Items of a Sequence observation, at most: it becomes `observation`, padded to this size, with `observation_mask`."""  # noqa: E501
    max_words: int = attrs.field(default=0, validator=at_least(0))
    """Words of a Text observation, at most: it becomes their numbers, 0 behind the last and 1 for unknown ones."""
    words: tuple[str, ...] = ()
    """The words that a Text observation may hold; the first has the number 2."""


@attrs.frozen(kw_only=True)
class GymVectorOptions:
    """Which simulation of many environments at once."""

    entry: Annotated[str, "or an object"]
    """"my_package.module:attribute" of a class or function that makes a gymnasium.vector.VectorEnv: it is called with `num_envs` and `kwargs`. From Python also such a class or function."""  # noqa: E501
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    """Further keyword arguments."""
    action_mask: Literal["auto", "observation", "info", "none"] = "auto"
    """Where masks of discrete actions come from: the observation key `action_mask`, or `info["action_mask"]`."""
