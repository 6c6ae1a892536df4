"""What stands in for a Gymnasium environment that runs somewhere else."""

from __future__ import annotations

from typing import Any

import gymnasium

from maze_kernel.errors import EnvError
from maze_runtime.env.outside import Outside


class OutsideGymEnv(gymnasium.Env[Any, Any]):
    """Asks the outside for every observation; draws nothing.

    Args:
        inner: the environment whose spaces it has; never stepped.
        outside: gives observations, gets actions.
    """

    def __init__(self, inner: gymnasium.Env[Any, Any], outside: Outside) -> None:
        self.observation_space = inner.observation_space
        self.action_space = inner.action_space
        self._outside = outside

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The outside's first observation."""
        reply = self._outside.reset()
        return reply.maze_state, reply.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The outside's answer to an action."""
        reply = self._outside.step(action)
        return reply.maze_state, reply.reward, reply.terminated, reply.truncated, reply.info

    def __deepcopy__(self, _memo: dict[int, Any]) -> OutsideGymEnv:
        raise EnvError(
            "there is no environment to clone: it runs outside of this process",
            help="plan in rollouts, which step one in this process",
        )
