"""Boxes of a graph: every edge points down, nothing overlaps, and few lines cross."""

import itertools
import random

import pytest

from maze_drawing.network_layout import place


def depth_of(layout):
    return {node: index for index, layer in enumerate(layout.layers) for node in layer}


def random_graph(n_nodes, seed):
    draw = random.Random(seed)
    edges = [(draw.randrange(target), target) for target in range(1, n_nodes)]
    edges += [tuple(sorted(draw.sample(range(n_nodes), 2))) for _ in range(n_nodes // 2)]
    return {node: draw.uniform(40.0, 200.0) for node in range(n_nodes)}, list(dict.fromkeys(edges))


@pytest.mark.parametrize("n_nodes", [2, 5, 40])
def test_edges_point_down_and_boxes_stay_apart(n_nodes):
    widths, edges = random_graph(n_nodes, seed=n_nodes)
    layout = place(widths, edges)
    depth = depth_of(layout)
    assert set(depth) == set(widths)
    for source, target in edges:
        assert depth[source] < depth[target]
        assert len(layout.bends[source, target]) == depth[target] - depth[source] - 1
    for layer in layout.layers:
        for left, right in itertools.pairwise(sorted(layer, key=layout.x.get)):
            assert layout.x[right] - layout.x[left] >= (widths[left] + widths[right]) / 2
    assert min(layout.x[node] - widths[node] / 2 for node in widths) == pytest.approx(0.0)


def test_lines_that_need_not_cross_do_not():
    edges = [("a", "z"), ("b", "y"), ("c", "x")]
    layout = place(dict.fromkeys("abcxyz", 50.0), edges)
    above = sorted("abc", key=layout.x.get)
    below = sorted("xyz", key=layout.x.get)
    partner = dict(edges)
    assert [partner[node] for node in above] == below
    assert all(layout.x[source] == pytest.approx(layout.x[target]) for source, target in edges)


def test_what_is_read_late_stands_beside_its_reader():
    edges = [("x", "body"), ("body", "head"), ("head", "masking"), ("mask", "masking")]
    depth = depth_of(place(dict.fromkeys(["x", "mask", "body", "head", "masking"], 50.0), edges))
    assert depth["mask"] == depth["masking"] - 1
