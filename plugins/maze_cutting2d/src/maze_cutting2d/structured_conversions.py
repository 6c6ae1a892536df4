"""The structured versions: conversions for "select" and "cut", with masks if wanted."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from maze_cutting2d.conversions import InventoryObservation
from maze_cutting2d.options import CuttingOptions, Size
from maze_cutting2d.states import CutAction, CuttingState, SelectAction, fits, turned
from maze_kernel.contracts.env import Action, Observation
from maze_runtime.env.conversion import ActionConversion, ObservationConversion

EMPTY: Size = (0, 0)


class SelectObservation(ObservationConversion[CuttingState]):
    """What the flat version sees; masked also `piece_idx_mask` (P,): pieces from which the order can be cut."""

    def __init__(self, options: CuttingOptions, inventory: InventoryObservation, masked: bool) -> None:
        self._n_slots = options.max_pieces_in_inventory
        self._inventory = inventory
        self._masked = masked

    def space(self) -> spaces.Dict:
        """That of the inventory, and the mask."""
        parts = dict(self._inventory.space().spaces)
        if self._masked:
            parts["piece_idx_mask"] = spaces.MultiBinary(self._n_slots)
        return spaces.Dict(parts)

    def maze_to_space(self, maze_state: CuttingState) -> Observation:
        """Inventory, order and mask."""
        observation = self._inventory.maze_to_space(maze_state)
        if self._masked:
            mask = np.zeros(self._n_slots, np.int8)
            order = maze_state.current_demand
            mask[: len(maze_state.inventory)] = [any(_rotations(order, piece)) for piece in maze_state.inventory]
            observation["piece_idx_mask"] = mask
        return observation


class CutObservation(ObservationConversion[CuttingState]):
    """`selected_piece` and `ordered_piece` (2,); masked also `cut_rotation_mask` (2,): rotations that fit.

    An empty slot is a piece of size zero; where nothing fits, the mask allows everything.
    """

    def __init__(self, inventory: InventoryObservation, masked: bool) -> None:
        self._inventory = inventory
        self._masked = masked

    def space(self) -> spaces.Dict:
        """Two pieces, and the mask."""
        piece = self._inventory.space()["ordered_piece"]
        parts: dict[str, spaces.Space[np.ndarray]] = {"selected_piece": piece, "ordered_piece": piece}
        if self._masked:
            parts["cut_rotation_mask"] = spaces.MultiBinary(2)
        return spaces.Dict(parts)

    def maze_to_space(self, maze_state: CuttingState) -> Observation:
        """The piece that was selected, the order and the mask."""
        index, pieces = maze_state.selected_piece_id, maze_state.inventory
        piece = pieces[index] if index is not None and index < len(pieces) else EMPTY
        observation: Observation = {
            "selected_piece": self._inventory.scaled(piece),
            "ordered_piece": self._inventory.scaled(maze_state.current_demand),
        }
        if self._masked:
            possible = _rotations(maze_state.current_demand, piece)
            observation["cut_rotation_mask"] = np.array(possible if any(possible) else (True, True), np.int8)
        return observation


class SelectConversion(ActionConversion[CuttingState, SelectAction]):
    """Head `piece_idx`."""

    def __init__(self, options: CuttingOptions) -> None:
        self._n_slots = options.max_pieces_in_inventory

    def space(self) -> spaces.Dict:
        """One choice a slot."""
        return spaces.Dict({"piece_idx": spaces.Discrete(self._n_slots)})

    def space_to_maze(self, action: Action, maze_state: CuttingState) -> SelectAction:
        """The index."""
        return SelectAction(piece_id=int(action["piece_idx"]))

    def maze_to_space(self, maze_action: SelectAction, maze_state: CuttingState) -> Action:
        """The way back."""
        return {"piece_idx": maze_action.piece_id}


class CutConversion(ActionConversion[CuttingState, CutAction]):
    """Heads `cut_rotation` and `cut_order`."""

    def space(self) -> spaces.Dict:
        """Two choices each."""
        return spaces.Dict({"cut_rotation": spaces.Discrete(2), "cut_order": spaces.Discrete(2)})

    def space_to_maze(self, action: Action, maze_state: CuttingState) -> CutAction:
        """Two flags."""
        return CutAction(rotate=bool(action["cut_rotation"]), reverse_cutting_order=bool(action["cut_order"]))

    def maze_to_space(self, maze_action: CutAction, maze_state: CuttingState) -> Action:
        """The way back."""
        return {"cut_rotation": int(maze_action.rotate), "cut_order": int(maze_action.reverse_cutting_order)}


def _rotations(order: Size, piece: Size) -> tuple[bool, bool]:
    """Whether the order fits as it is, and turned."""
    return fits(order, piece), fits(turned(order, True), piece)
