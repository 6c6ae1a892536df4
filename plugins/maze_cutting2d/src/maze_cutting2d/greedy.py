"""A heuristic that needs no training: cut from the smallest piece that fits, waste little."""

from __future__ import annotations

import numpy as np

from maze_cutting2d.options import Size
from maze_cutting2d.states import fits, leftovers, turned
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import SpaceError
from maze_runtime.rollout.rule_policy import RulePolicy

SIDES = 10_000.0
"""Sides are compared as whole numbers of this fraction of a unit, so that scaled observations work as well."""


class GreedyPolicy(RulePolicy):
    """Reads the observations of "cutting-2d" in any version.

    Of the pieces the order fits into it takes the smallest; of the four ways to cut it, the one that leaves the
    longest piece, and among these the largest. On the default demand it uses no more raw pieces than the optimum.

    Raises:
        SpaceError: the environment is not "cutting-2d", or its conversions were replaced.
    """

    def __init__(self, context: PolicyContext) -> None:
        observation = context.spaces.observation
        keys = set().union(*(space.spaces for space in observation.values()))
        if not {"inventory", "ordered_piece"} <= keys:
            raise SpaceError(
                "the greedy cutting policy reads the observations of the environment 'cutting-2d'",
                received=", ".join(sorted(keys)),
                expected="inventory, ordered_piece",
                owner="maze-cutting2d",
            )
        self._heads = {key: tuple(action.spaces) for key, action in context.spaces.action.items()}

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """One decision a row; whole ones, or those of one sub-step."""
        orders = _sizes(group.observation["ordered_piece"])
        if "selected_piece" in group.observation:
            pieces = _sizes(group.observation["selected_piece"])
            choices = [(0, *_best_cut(piece, order)) for piece, order in zip(pieces, orders, strict=True)]
        else:
            inventories = [_sizes(inventory) for inventory in group.observation["inventory"]]
            choices = [_choose(inventory, order) for inventory, order in zip(inventories, orders, strict=True)]
        columns = np.array(choices, np.int64).reshape(len(orders), 3)
        named = {"piece_idx": columns[:, 0], "cut_rotation": columns[:, 1], "cut_order": columns[:, 2]}
        return {head: named[head] for head in self._heads[policy_key]}


def _choose(inventory: list[Size], order: Size) -> tuple[int, int, int]:
    possible = [
        (piece[0] * piece[1], index)
        for index, piece in enumerate(inventory)
        if fits(order, piece) or fits(turned(order, True), piece)
    ]
    if not possible:
        return 0, 0, 0
    _, index = min(possible)
    return index, *_best_cut(inventory[index], order)


def _best_cut(piece: Size, order: Size) -> tuple[int, int]:
    """(rotation, cutting order) that leave the longest piece, among these the largest; (0, 0) where none fits."""
    ways = [
        (_worth(piece, turned(order, bool(rotate)), bool(reverse)), rotate, reverse)
        for rotate in (0, 1)
        for reverse in (0, 1)
        if fits(turned(order, bool(rotate)), piece)
    ]
    if not ways:
        return 0, 0
    _, rotate, reverse = max(ways, key=lambda way: way[0])
    return rotate, reverse


def _worth(piece: Size, order: Size, reverse: bool) -> tuple[int, int]:
    return max(((max(x, y), x * y) for x, y in leftovers(piece, order, reverse)), default=(0, 0))


def _sizes(array: np.ndarray) -> list[Size]:
    return [(int(x), int(y)) for x, y in np.rint(np.asarray(array, np.float64) * SIDES).tolist()]
