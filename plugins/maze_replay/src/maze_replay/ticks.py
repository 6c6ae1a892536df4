"""Ticks that outlive the next step."""

from __future__ import annotations

import attrs

from maze_kernel.contracts.vector import Tick


def kept(tick: Tick) -> Tick:
    """The tick with copies of its observations: a batch may write the next ones into the same arrays.

    What is stored of a step is what it led to, so only the tick of a reset, which no step led to, has to be kept.
    """
    groups = {
        key: attrs.evolve(group, observation={name: array.copy() for name, array in group.observation.items()})
        for key, group in tick.groups.items()
    }
    return attrs.evolve(tick, groups=groups)
