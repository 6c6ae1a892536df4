"""Who acts before the first update: uniformly random actions, the untrained policy, or any policy component."""

from __future__ import annotations

from typing import Any

from maze_kernel.catalog import build
from maze_kernel.contracts.model import Policy, PolicyContext
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_runtime.rollout.collector import OnlyCollects, innermost
from maze_runtime.rollout.episode_observer import played_envs
from maze_runtime.rollout.heuristic import WatchesEnvs
from maze_runtime.rollout.random_policy import RandomPolicy

OWNER = "maze-sac"
OPTION = "initial_sampling_policy"


class InitialPolicy:
    """The policy that the option `initial_sampling_policy` names, and what it needs.

    It acts before the first update only. That lies in the first epoch, so a checkpoint need not know of it.

    Args:
        chosen: the option.
        network: the policy that is trained.
        context: of the trainer.
        vector_env: in which it acts.

    Attributes:
        policy: acts.
        is_random: uniformly at random; workers know that by themselves.

    Raises:
        RequestError: workers collect, and they know random actions and the network only.
    """

    def __init__(
        self, chosen: str | Selection, network: Policy, context: TrainerContext, vector_env: VectorEnv
    ) -> None:
        self._env: Any = None
        self.is_random = chosen == "random" or (isinstance(chosen, Selection) and chosen.use == "random")
        if self.is_random:
            self.policy: Policy = RandomPolicy(PolicyContext(spaces=context.spaces))
        elif isinstance(chosen, str):
            self.policy = network
        else:
            _require_single_steps(chosen, vector_env)
            self._env = context.make_env()
            of = PolicyContext(spaces=context.spaces, env=self._env, transforms=tuple(context.transforms))
            self.policy = build(chosen, of)
            if isinstance(self.policy, WatchesEnvs):
                self.policy.watch_envs(played_envs(vector_env))

    def close(self) -> None:
        """Close the environment that the policy plans in."""
        if self._env is not None:
            self._env.close()


def _require_single_steps(chosen: Selection, vector_env: VectorEnv) -> None:
    if isinstance(innermost(vector_env), OnlyCollects):
        raise RequestError(
            f"workers cannot collect with the policy {chosen.use!r}",
            received='[vector] mode = "workers"',
            expected=f'{OPTION} = "random" or "policy" there',
            option=OPTION,
            owner=OWNER,
            help='choose another [vector] mode, such as "subprocess"',
        )
