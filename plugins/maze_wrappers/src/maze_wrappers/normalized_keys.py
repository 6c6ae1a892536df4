"""Which statistics the observations of an experiment have, and what its options say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_runtime.env.graph_links import links_of
from maze_runtime.env.importing import imported
from maze_runtime.env.mask_reading import masks_of
from maze_wrappers.options import KeyNormalization
from maze_wrappers.running_statistics import RunningMoments, RunningRange

OWNER = "maze-wrappers: observation-normalization"
STRATEGIES: dict[str, Any] = {"mean-zero-std-one": RunningMoments, "range-zero-one": RunningRange}


@attrs.frozen
class NormalizedBox:
    """A Box observation.

    Attributes:
        statistics: what its statistics are called.
        name: of the observation.
        box: its space.
    """

    statistics: str
    name: str
    box: spaces.Box


def normalized_boxes(inner: StructuredSpaces) -> dict[PolicyKey, list[NormalizedBox]]:
    """The Box observations of each policy key, without masks and the links of graphs.

    Statistics belong to an observation's name and are shared by all policy keys that see it, unless these see different
    shapes: then each key has its own, called "key/name".
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for _, name, box in _boxes(inner):
        shapes.setdefault(name, set()).add(box.shape)
    found: dict[PolicyKey, list[NormalizedBox]] = {key: [] for key in inner.observation}
    for key, name, box in _boxes(inner):
        found[key].append(NormalizedBox(name if len(shapes[name]) == 1 else f"{key}/{name}", name, box))
    return found


def _boxes(inner: StructuredSpaces) -> Iterator[tuple[PolicyKey, str, spaces.Box]]:
    for key, space in inner.observation.items():
        others = masks_of(space, inner.action[key]) | links_of(space)
        for name, leaf in space.spaces.items():
            if isinstance(leaf, spaces.Box) and name not in others:
                yield key, name, leaf


def given_scaling(settings: KeyNormalization) -> tuple[np.ndarray, np.ndarray] | None:
    """Offset and scale that the options give; None: they are to be learnt."""
    if settings.mean is not None:
        std = np.array(settings.std, np.float64)
        return np.array(settings.mean, np.float64), np.where(std > 0, std, 1.0)
    if settings.min is not None:
        low = np.array(settings.min, np.float64)
        width = np.array(settings.max, np.float64) - low
        return low, np.where(width > 0, width, 1.0)
    return None


def strategy_class(name: str, option: str) -> Any:
    """The class of statistics behind a name or an import path, which stands in that option.

    Raises:
        RequestError: there is none.
    """
    return STRATEGIES.get(name) or imported(name, owner=OWNER, option=option, known=tuple(STRATEGIES))
