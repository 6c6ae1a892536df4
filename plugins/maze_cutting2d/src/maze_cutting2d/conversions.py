"""The flat version: one observation of inventory and order, one action of three heads."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from maze_cutting2d.options import CuttingOptions, Size
from maze_cutting2d.states import CuttingAction, CuttingState
from maze_kernel.contracts.env import Action, Observation
from maze_runtime.env.conversion import ActionConversion, ObservationConversion


class InventoryObservation(ObservationConversion[CuttingState]):
    """`inventory` (P, 2) with zeros for empty slots, `inventory_size` (1,), `ordered_piece` (2,), all float32.

    Args:
        options: of the environment.
        scaled: sides as shares of the raw piece's longer side and the size as a share of the slots, so that all
            values lie between 0 and 1.
    """

    def __init__(self, options: CuttingOptions, *, scaled: bool = False) -> None:
        self._n_slots = options.max_pieces_in_inventory
        self._longest = float(max(options.raw_piece_size))
        self.unit = 1.0 / self._longest if scaled else 1.0
        self._count_unit = 1.0 / self._n_slots if scaled else 1.0

    def space(self) -> spaces.Dict:
        """Boxes from 0 to the largest side and to the number of slots."""
        side, count = self._longest * self.unit, self._n_slots * self._count_unit
        return spaces.Dict(
            {
                "inventory": spaces.Box(0.0, side, (self._n_slots, 2), np.float32),
                "inventory_size": spaces.Box(0.0, count, (1,), np.float32),
                "ordered_piece": spaces.Box(0.0, side, (2,), np.float32),
            }
        )

    def maze_to_space(self, maze_state: CuttingState) -> Observation:
        """Pieces in the order of the inventory, the oldest first."""
        pieces = maze_state.inventory
        inventory = np.zeros((self._n_slots, 2), np.float32)
        inventory[: len(pieces)] = pieces
        if self.unit != 1.0:
            inventory *= self.unit
        return {
            "inventory": inventory,
            "inventory_size": np.array([len(pieces) * self._count_unit], np.float32),
            "ordered_piece": self.scaled(maze_state.current_demand),
        }

    def scaled(self, size: Size) -> np.ndarray:
        """(2,) one piece in the units of the observation."""
        return np.array(size, np.float32) * np.float32(self.unit)


class CuttingHeads(ActionConversion[CuttingState, CuttingAction]):
    """Heads `piece_idx` (P choices), `cut_rotation` and `cut_order` (two each)."""

    def __init__(self, options: CuttingOptions) -> None:
        self._n_slots = options.max_pieces_in_inventory

    def space(self) -> spaces.Dict:
        """Three Discrete heads."""
        return spaces.Dict(
            {
                "piece_idx": spaces.Discrete(self._n_slots),
                "cut_rotation": spaces.Discrete(2),
                "cut_order": spaces.Discrete(2),
            }
        )

    def space_to_maze(self, action: Action, maze_state: CuttingState) -> CuttingAction:
        """Index and two flags."""
        return CuttingAction(
            piece_id=int(action["piece_idx"]),
            rotate=bool(action["cut_rotation"]),
            reverse_cutting_order=bool(action["cut_order"]),
        )

    def maze_to_space(self, maze_action: CuttingAction, maze_state: CuttingState) -> Action:
        """The way back."""
        return {
            "piece_idx": maze_action.piece_id,
            "cut_rotation": int(maze_action.rotate),
            "cut_order": int(maze_action.reverse_cutting_order),
        }
