"""Options of the environment component "cutting-2d"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from maze_kernel.validators import at_least

Size = tuple[int, int]
"""(x, y) side lengths of a piece."""


@attrs.frozen(kw_only=True)
class CuttingOptions:
    """The problem, how it is presented to a policy, and what is rewarded."""

    version: Literal["flat", "structured", "masked"] = "flat"
    """"flat": piece, rotation and cutting order in one action; "structured": first the piece, then how it is cut; "masked": the same with masks of the choices that can succeed."""  # noqa: E501
    raw_piece_size: Size = (100, 100)
    """Side lengths (x, y) of a fresh raw piece."""
    max_pieces_in_inventory: int = attrs.field(default=200, validator=at_least(1))
    """Slots of the inventory; when it is full, the oldest piece that is no raw piece is thrown away."""
    demand: Literal["static", "alternating", "random"] = "alternating"
    """"static": always the first of `orders`; "alternating": all of them in turn; "random": sides drawn uniformly from `random_sides`."""  # noqa: E501
    orders: tuple[Size, ...] = ((60, 33), (40, 33))
    """Sizes (x, y) that customers order. Of the default ones, three of each can be cut from one raw piece."""
    random_sides: tuple[int, int] = (10, 60)
    """Smallest and largest side of an order, for demand "random"."""
    max_episode_steps: int = attrs.field(default=180, validator=at_least(0))
    """Orders after which an episode is truncated; 0: never, for use with the wrapper time-limit."""
    reward: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "default"})
    """Reward aggregator: `use` is "default" (options raw_piece_usage_penalty = -1.0, invalid_action_penalty = -2.0), "raw-piece-usage" (option scale = 1.0), or "package.module:Class" of your own."""  # noqa: E501
    observation: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "inventory"})
    """Observation conversion of the flat version: `use` is "inventory" (option scaled = false: sides as they are; true: as shares of the raw piece's), or "package.module:Class"."""  # noqa: E501
    action: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "dict"})
    """Action conversion of the flat version: `use` is "dict" (heads piece_idx, cut_rotation, cut_order), or "package.module:Class"."""  # noqa: E501
    render_mode: Literal["rgb_array"] | None = None
    """"rgb_array": frames for videos, which need matplotlib; `maze rollout --video` sets it."""

    def __attrs_post_init__(self) -> None:
        sizes = (self.raw_piece_size, *self.orders)
        if not self.orders or min(min(size) for size in sizes) < 1:
            raise ValueError("raw_piece_size and orders must be positive sizes, and at least one order is needed")
        largest = (self.random_sides[1], self.random_sides[1])
        orders = (largest,) if self.demand == "random" else self.orders
        if not 1 <= self.random_sides[0] <= self.random_sides[1]:
            raise ValueError("random_sides must be the smallest and the largest side, at least 1")
        for order in orders:
            if not all(a <= b for a, b in zip(sorted(order), sorted(self.raw_piece_size), strict=True)):
                raise ValueError(f"an order of {order} does not fit into a raw piece of {self.raw_piece_size}")
