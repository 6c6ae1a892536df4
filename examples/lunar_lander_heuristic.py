"""A plugin in one file: the policy with which Gymnasium's LunarLander-v3 comes, as an expert to imitate.

An experiment beside it loads it with `[plugins] load = ["lunar_lander_heuristic.py"]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel import hookimpl
from maze_kernel.components import PolicyComponent
from maze_runtime.rollout.rule_policy import RulePolicy

MAZE_PLUGIN_API = 1


@hookimpl
def maze_policies():
    yield PolicyComponent(
        name="lunar-lander-heuristic",
        target=f"{__name__}:LunarLanderHeuristic",
        summary="Lands by hand-written rules; discrete and continuous LunarLander-v3.",
    )


class _Lander:
    """What Gymnasium's function asks of an environment."""

    def __init__(self, continuous: bool) -> None:
        self.unwrapped = self
        self.continuous = continuous


class LunarLanderHeuristic(RulePolicy):
    """Steers towards the middle and falls slowly; it reads observations as the environment gives them."""

    def __init__(self, context: Any) -> None:
        (head,) = context.spaces.action["0"].spaces.values()
        self._lander = _Lander(continuous=head.shape == (2,))
        self._dtype = head.dtype

    def act(self, policy_key, group, *, deterministic=False):
        from gymnasium.envs.box2d.lunar_lander import heuristic

        (rows,) = group.observation.values()
        return {"action": np.array([heuristic(self._lander, row) for row in rows], self._dtype)}
