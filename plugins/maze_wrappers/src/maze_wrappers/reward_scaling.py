"""Rewards times a constant."""

from __future__ import annotations

import numpy as np

from maze_kernel.contracts.transform import Transform
from maze_wrappers.options import RewardScalingOptions


class RewardScaling(Transform):
    """r' = scale · r."""

    def __init__(self, options: RewardScalingOptions) -> None:
        self.options = options

    def reward(self, reward: np.ndarray) -> np.ndarray:
        """Inner reward to outer."""
        return reward * self.options.scale
