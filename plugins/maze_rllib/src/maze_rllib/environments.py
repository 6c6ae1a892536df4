"""Maze environments as RLlib steps them: flat ones as Gymnasium's, structured ones as multi-agent ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from maze_kernel.contracts.env import ActorID, StructuredEnv
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import NonFiniteError
from maze_runtime.env.to_gymnasium import to_gymnasium


@attrs.frozen
class FlatEnvs:
    """Builds what RLlib asks for: one environment, or a batch where its context names `num_envs`.

    Attributes:
        make_env: one environment with the wrappers that must see a single one.
        transforms: around it, innermost first.
    """

    make_env: Callable[[], StructuredEnv]
    transforms: Sequence[Transform]

    def __call__(self, context: dict[str, Any]) -> Any:
        """An environment, or a vector of them; the caller closes it."""
        n_envs = context.get("num_envs")
        return self.one() if n_envs is None else SyncVectorEnv([self.one] * n_envs)

    def one(self) -> gymnasium.Env[Any, Any]:
        """One environment."""
        return FiniteEnv(to_gymnasium(self.make_env(), transforms=self.transforms))


class FiniteEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Refuses NaN and infinity, and keeps infos to itself: RLlib would collect them.

    Raises:
        NonFiniteError: from `reset` and `step`.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, _ = self.env.reset(seed=seed, options=options)
        require_finite(observation, "the observation")
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, _ = self.env.step(action)
        require_finite(observation, "the observation")
        require_finite(reward, "the reward")
        return observation, float(reward), terminated, truncated, {}


def require_finite(value: Any, what: str) -> None:
    """Refuse NaN and infinity in an array, a number or a dict of them.

    Raises:
        NonFiniteError: names what is not finite.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            require_finite(part, f"{what} {name!r}")
    elif not np.isfinite(value).all():
        raise NonFiniteError(
            f"{what} of a training environment is not finite",
            expected="finite numbers",
            help="guard the division, logarithm or root that makes it",
        )


def plain_space(space: spaces.Dict) -> spaces.Space[Any]:
    """A Dict with one key as the space of that key; any other as it is."""
    return next(iter(space.spaces.values())) if len(space.spaces) == 1 else space


def agent_name(actor: ActorID) -> str:
    """What RLlib calls an actor: "policy key/agent"."""
    return f"{actor.step_key}/{actor.agent_id}"


def policy_key_of(agent: str) -> str:
    """The policy key in the name of an agent."""
    return agent.rpartition("/")[0]
