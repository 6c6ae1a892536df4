"""What a sweep may choose: a tree of leaves, in which a choice decides which further leaves there are.

A leaf has the name of the setting it chooses, `trainer.lr`; below a choice the branch stands behind the table that it
fills, `trainer[ppo].lr`, so that every name in a space says one thing. A draw maps the names of the leaves that apply
to their values, for a choice the label of the branch; `settings` makes it into what an experiment is overridden with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

Draw = Mapping[str, Any]
"""Leaf name to value; to the label of the branch where the leaf is a choice."""


@attrs.frozen(kw_only=True)
class Values:
    """One of several values, without order.

    Attributes:
        path: the setting, as after `--set`.
    """

    name: str
    path: str
    values: tuple[Any, ...]


@attrs.frozen(kw_only=True)
class Range:
    """A number between two others, both included.

    Attributes:
        log: equal ratios are equally far apart, instead of equal differences.
        step: distance of the numbers that may be chosen, counted from `low`; None: every number, or integer.
        points: how many of them a grid tries; None: every step, and where there is no step a grid cannot.
        is_integer: whether the setting is an integer.
    """

    name: str
    path: str
    low: float
    high: float
    log: bool = False
    step: float | None = None
    points: int | None = None
    is_integer: bool = False


@attrs.frozen(kw_only=True)
class Branch:
    """What one choice sets, and what it leaves to be chosen.

    Attributes:
        settings: path to value; the path of the table itself where the branch replaces it.
    """

    label: str
    settings: Mapping[str, Any]
    leaves: tuple[Leaf, ...] = ()


@attrs.frozen(kw_only=True)
class Choice:
    """One of several tables. Their labels differ."""

    name: str
    path: str
    branches: tuple[Branch, ...]

    def branch(self, label: str) -> Branch:
        """The branch of that label.

        Raises:
            KeyError: there is none.
        """
        return {branch.label: branch for branch in self.branches}[label]


Leaf = Values | Range | Choice


@attrs.frozen(kw_only=True)
class Space:
    """Everything that a sweep may choose."""

    leaves: tuple[Leaf, ...]

    def walk(self, choose: Callable[[Leaf], Any]) -> dict[str, Any]:
        """The draw that arises where each leaf that applies is chosen in order: outer ones first.

        Args:
            choose: the value of a leaf; of a `Choice` the label of a branch.
        """
        draw: dict[str, Any] = {}
        for leaf in self.reached(draw):
            draw[leaf.name] = choose(leaf)
        return draw

    def reached(self, draw: Draw) -> Iterator[Leaf]:
        """The leaves that apply, in order; the value of a choice is looked up after it was handed out."""
        return _reached(self.leaves, draw)

    def settings(self, draw: Draw) -> dict[str, Any]:
        """Path to value, in the order in which an experiment is overridden with them.

        Raises:
            KeyError: the draw has no value for a leaf that applies, or an unknown label.
        """
        found: dict[str, Any] = {}
        for leaf in self.reached(draw):
            if isinstance(leaf, Choice):
                found.update(leaf.branch(draw[leaf.name]).settings)
            else:
                found[leaf.path] = draw[leaf.name]
        return found


def _reached(leaves: tuple[Leaf, ...], draw: Draw) -> Iterator[Leaf]:
    for leaf in leaves:
        yield leaf
        if isinstance(leaf, Choice):
            yield from _reached(leaf.branch(draw[leaf.name]).leaves, draw)
