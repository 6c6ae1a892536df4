"""States and actions of the simulation: plain data, fit for recordings."""

from __future__ import annotations

import attrs

from maze_cutting2d.options import Size


@attrs.frozen(kw_only=True)
class CuttingState:
    """What a warehouse worker would see.

    Attributes:
        inventory: pieces (x, y), the oldest first.
        max_pieces_in_inventory: slots.
        current_demand: the order (x, y) to cut next.
        raw_piece_size: of a fresh piece.
        selected_piece_id: the piece that the first sub-step chose; None before, and in the flat version.
    """

    inventory: tuple[Size, ...]
    max_pieces_in_inventory: int
    current_demand: Size
    raw_piece_size: Size
    selected_piece_id: int | None = None


@attrs.frozen(kw_only=True)
class CuttingAction:
    """A whole decision: which piece, the order turned by 90 degrees or not, and which cut comes first.

    Attributes:
        piece_id: index into the inventory.
        rotate: cut (y, x) in place of (x, y).
        reverse_cutting_order: cut y to size first, then x.
    """

    piece_id: int
    rotate: bool
    reverse_cutting_order: bool


@attrs.frozen(kw_only=True)
class SelectAction:
    """First sub-step: which piece."""

    piece_id: int


@attrs.frozen(kw_only=True)
class CutAction:
    """Second sub-step: how the selected piece is cut."""

    rotate: bool
    reverse_cutting_order: bool


def turned(size: Size, rotate: bool) -> Size:
    """The size, or with its sides exchanged."""
    return (size[1], size[0]) if rotate else size


def fits(order: Size, piece: Size) -> bool:
    """Whether the order can be cut from the piece without turning it."""
    return order[0] <= piece[0] and order[1] <= piece[1]


def leftovers(piece: Size, order: Size, reverse_cutting_order: bool) -> tuple[Size, ...]:
    """What two guillotine cuts leave of a piece, in the order they fall off; nothing where a side is used up."""
    rest_x, rest_y = piece[0] - order[0], piece[1] - order[1]
    if reverse_cutting_order:
        parts = ((piece[0], rest_y), (rest_x, order[1]))
    else:
        parts = ((rest_x, piece[1]), (order[0], rest_y))
    return tuple(part for part in parts if min(part) > 0)
