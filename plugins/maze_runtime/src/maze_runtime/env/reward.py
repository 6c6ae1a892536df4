"""The contract of reward aggregators: a reward made of the events of a step, apart from the simulation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from maze_runtime.events.pubsub import Subscriber


class RewardAggregator(Subscriber):
    """Says which events it listens to, and sums them up to a reward.

    `query_events` holds the events of the last call of `CoreEnv.step` only. An aggregator keeps nothing of its own
    between steps, so environments can be cloned without it.
    """

    @abstractmethod
    def summarize_reward(self, maze_state: Any) -> float | np.ndarray:
        """The reward of the last step; replaces what the core environment returned.

        Args:
            maze_state: the state after the step.

        Returns:
            One number; or at the end of a flat step an array with one number a sub-step, whose sum is the reward.
        """
