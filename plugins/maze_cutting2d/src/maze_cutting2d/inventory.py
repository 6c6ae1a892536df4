"""The pieces in stock, and cutting them."""

from __future__ import annotations

from maze_cutting2d.events import InventoryEvents
from maze_cutting2d.options import Size
from maze_cutting2d.states import CuttingAction, fits, leftovers, turned


class Inventory:
    """Pieces, the oldest first; always holds a raw piece between steps.

    Args:
        max_pieces: slots.
        raw_piece_size: of a fresh piece.
        events: the topic it reports on.
    """

    def __init__(self, max_pieces: int, raw_piece_size: Size, events: InventoryEvents) -> None:
        self.pieces: list[Size] = []
        self._max_pieces = max_pieces
        self._raw_piece_size = raw_piece_size
        self._events = events

    def replenish(self) -> None:
        """Add a raw piece."""
        self._store(self._raw_piece_size)
        self._events.piece_replenished()

    def cut(self, action: CuttingAction, order: Size) -> bool:
        """Cut the order from an existing piece and put what is left of it back; False where it does not fit."""
        order = turned(order, action.rotate)
        piece = self.pieces[action.piece_id]
        if not fits(order, piece):
            return False
        del self.pieces[action.piece_id]
        for leftover in leftovers(piece, order, action.reverse_cutting_order):
            self._store(leftover)
        return True

    def _store(self, piece: Size) -> None:
        if len(self.pieces) == self._max_pieces:
            oldest = next((i for i, other in enumerate(self.pieces) if other != self._raw_piece_size), 0)
            self._events.piece_discarded(piece=self.pieces.pop(oldest))
        self.pieces.append(piece)
