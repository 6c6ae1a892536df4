"""Places the boxes of a directed graph: in layers from top to bottom, with few crossings and short lines.

Sugiyama et al. 1981: layers by the longest path, order within a layer by barycentres, then positions by least squares.
Knows nothing of what the boxes mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

Node = Any
"""Anything hashable."""
Edge = tuple[Node, Node]

_SWEEPS = 12
_GAP = 28.0
_BEND_WIDTH = 8.0


@attrs.frozen(kw_only=True)
class Layout:
    """Where everything is, in pixels.

    Attributes:
        layers: nodes from top to bottom, each from left to right.
        x: centre of each node.
        bends: edge to the centres (x) of its bends, one a layer that it passes.
    """

    layers: tuple[tuple[Node, ...], ...]
    x: Mapping[Node, float]
    bends: Mapping[Edge, tuple[float, ...]]


def place(widths: Mapping[Node, float], edges: Sequence[Edge]) -> Layout:
    """Place nodes so that every edge points down.

    Args:
        widths: of every node, sources before what they feed.
        edges: without circles.
    """
    level = _levels(list(widths), edges)
    chains = {edge: _chain(edge, level) for edge in edges}
    size = dict(widths) | {bend: _BEND_WIDTH for chain in chains.values() for bend in chain[1:-1]}
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    depth = {**level, **{bend: bend[2] for chain in chains.values() for bend in chain[1:-1]}}
    layers = [[node for node in size if depth[node] == index] for index in range(max(depth.values()) + 1)]
    above, below = _neighbours(links)
    layers = _order(layers, above, below)
    x = _positions(layers, size, above, below)
    left = min(x[node] - size[node] / 2 for node in widths)
    return Layout(
        layers=tuple(tuple(node for node in layer if node in widths) for layer in layers),
        x={node: x[node] - left for node in widths},
        bends={edge: tuple(x[bend] - left for bend in chain[1:-1]) for edge, chain in chains.items()},
    )


def _levels(nodes: list[Node], edges: Sequence[Edge]) -> dict[Node, int]:
    """Longest path from the sources; then sources move down to just above what reads them first."""
    level = dict.fromkeys(nodes, 0)
    for _ in nodes:
        changed = False
        for source, target in edges:
            if level[target] <= level[source]:
                level[target], changed = level[source] + 1, True
        if not changed:
            break
    fed = {target for _, target in edges}
    for node in nodes:
        targets = [level[target] for source, target in edges if source == node]
        if node not in fed and targets:
            level[node] = min(targets) - 1
    return level


def _chain(edge: Edge, level: Mapping[Node, int]) -> list[Node]:
    source, target = edge
    bends: list[Node] = [("bend", edge, depth) for depth in range(level[source] + 1, level[target])]
    return [source, *bends, target]


def _neighbours(links: Iterable[Edge]) -> tuple[dict[Node, list[Node]], dict[Node, list[Node]]]:
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for source, target in links:
        below.setdefault(source, []).append(target)
        above.setdefault(target, []).append(source)
    return above, below


def _order(
    layers: list[list[Node]], above: Mapping[Node, list[Node]], below: Mapping[Node, list[Node]]
) -> list[list[Node]]:
    """Sort layers by the mean position of their neighbours, down and up; keep the order with the fewest crossings."""
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        neighbours = above if downward else below
        layers = [list(layer) for layer in layers]
        indices = range(1, len(layers)) if downward else range(len(layers) - 2, -1, -1)
        for index in indices:
            beside = layers[index - 1 if downward else index + 1]
            position = {node: i for i, node in enumerate(beside)}
            layers[index].sort(key=_barycentre(layers[index], neighbours, position).__getitem__)
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _barycentre(
    layer: list[Node], neighbours: Mapping[Node, list[Node]], position: Mapping[Node, int]
) -> dict[Node, float]:
    centres = {}
    for index, node in enumerate(layer):
        places = [position[other] for other in neighbours.get(node, ()) if other in position]
        centres[node] = sum(places) / len(places) if places else float(index)
    return centres


def _crossings(layers: list[list[Node]], below: Mapping[Node, list[Node]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        position = {node: i for i, node in enumerate(lower)}
        ends = [sorted(position[target] for target in below.get(node, ())) for node in upper]
        seen: list[int] = []
        for targets in ends:
            total += sum(1 for target in targets for other in seen if other > target)
            seen += targets
    return total


def _positions(
    layers: list[list[Node]],
    size: Mapping[Node, float],
    above: Mapping[Node, list[Node]],
    below: Mapping[Node, list[Node]],
) -> dict[Node, float]:
    """Every node as near to the mean of its neighbours as the others of its layer allow."""
    x: dict[Node, float] = {}
    for layer in layers:
        x |= _spread([0.0] * len(layer), layer, size)
    for sweep in range(2 * _SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for node in layer:
                beside = [x[other] for other in (*above.get(node, ()), *below.get(node, ()))]
                wanted.append(sum(beside) / len(beside) if beside else x[node])
            x |= _spread(wanted, layer, size)
    return x


def _spread(wanted: list[float], layer: list[Node], size: Mapping[Node, float]) -> dict[Node, float]:
    """Least squares under the order and the gaps of a layer: isotonic regression by pooling adjacent violators."""
    offsets = [0.0]
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (size[left] + size[right]) / 2 + _GAP)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=True):
        mean, count = value - offset, 1
        while pools and pools[-1][0] > mean:
            before, n_before = pools.pop()
            mean, count = (before * n_before + mean * count) / (n_before + count), n_before + count
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return {node: mean + offset for node, mean, offset in zip(layer, means, offsets, strict=True)}
