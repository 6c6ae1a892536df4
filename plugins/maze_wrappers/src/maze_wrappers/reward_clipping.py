"""Rewards between two bounds."""

from __future__ import annotations

import numpy as np

from maze_kernel.contracts.transform import Transform
from maze_wrappers.options import RewardClippingOptions


class RewardClipping(Transform):
    """r' = min(max(r, min_val), max_val)."""

    def __init__(self, options: RewardClippingOptions) -> None:
        self.options = options

    def reward(self, reward: np.ndarray) -> np.ndarray:
        """Inner reward to outer."""
        return np.asarray(np.clip(reward, self.options.min_val, self.options.max_val))
