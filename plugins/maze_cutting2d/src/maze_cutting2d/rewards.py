"""Reward aggregators; both count the events of a step."""

from __future__ import annotations

from typing import Any

from maze_cutting2d.events import CuttingEvents, InventoryEvents
from maze_runtime.env.reward import RewardAggregator


class DefaultReward(RewardAggregator):
    """A penalty for each raw piece that is started, and one for each action that cannot be carried out.

    Args:
        raw_piece_usage_penalty: a raw piece.
        invalid_action_penalty: an empty slot, or an order that does not fit.
    """

    def __init__(self, *, raw_piece_usage_penalty: float = -1.0, invalid_action_penalty: float = -2.0) -> None:
        super().__init__()
        self._raw_piece_usage_penalty = raw_piece_usage_penalty
        self._invalid_action_penalty = invalid_action_penalty

    def get_interfaces(self) -> tuple[type, ...]:
        """Cuts and the inventory."""
        return CuttingEvents, InventoryEvents

    def summarize_reward(self, maze_state: Any) -> float:
        """The sum of the penalties."""
        n_raw = len(self.query_events(InventoryEvents.piece_replenished))
        n_invalid = len(self.query_events(CuttingEvents.invalid_piece_selected, CuttingEvents.invalid_cut))
        return n_raw * self._raw_piece_usage_penalty + n_invalid * self._invalid_action_penalty


class RawPieceUsageReward(RewardAggregator):
    """Minus one for each raw piece that is started, and nothing else.

    Args:
        scale: multiplies the reward.
    """

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        self._scale = scale

    def get_interfaces(self) -> tuple[type, ...]:
        """The inventory."""
        return (InventoryEvents,)

    def summarize_reward(self, maze_state: Any) -> float:
        """Counts the pieces that were replenished."""
        return -self._scale * len(self.query_events(InventoryEvents.piece_replenished))
