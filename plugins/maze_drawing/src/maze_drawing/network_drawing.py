"""Draws a network: boxes for blocks and tensors with their shapes, from top to bottom, and the same as SVG.

A `Drawing` is boxes, curves and texts with coordinates: whoever writes another format (a bitmap, say) reads these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from xml.sax.saxutils import escape

import attrs

from maze_drawing.network_layout import Edge, Layout, Node, place
from maze_kernel.contracts.networks import NetworkGraph

_MARGIN = 24.0
_TITLE_HEIGHT = 44.0
_FONTS = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_BLOCK_HEIGHT = 46.0
_TENSOR_HEIGHT = 40.0
_LAYER_GAP = 46.0
_GAP_A_REACH = 0.06
"""Added to the gap below a layer for every pixel that its widest line goes to the side."""
_WIDTH_OF_LETTER = 0.6
"""Of the font's size; texts are set in a font of fixed width."""

Point = tuple[float, float]


@attrs.frozen(kw_only=True)
class Box:
    """A rectangle; `shade` is how much of its colour shows, 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    round: float
    colour: str
    shade: float


@attrs.frozen(kw_only=True)
class Curve:
    """A line through points, smooth, with an arrow at its end."""

    points: tuple[Point, ...]


@attrs.frozen(kw_only=True)
class Label:
    """One line of text; `x` is its middle, or its left end where `anchor` is "start"; `y` its baseline."""

    x: float
    y: float
    text: str
    size: int
    bold: bool = False
    anchor: str = "middle"


@attrs.frozen(kw_only=True)
class Drawing:
    """The picture of one network."""

    name: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    labels: tuple[Label, ...]

    def to_svg(self) -> str:
        """The picture as a whole SVG file."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}">',
            f"<title>{escape(self.name)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#5b6472"/></marker></defs>',
            *map(_svg_curve, self.curves),
            *map(_svg_box, self.boxes),
            *map(_svg_label, self.labels),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def draw(graph: NetworkGraph, name: str) -> Drawing:
    """The picture of a network under a name."""
    texts = _texts(graph)
    widths = {node: _width(lines) for node, lines in texts.items()}
    layout = place(widths, _edges(graph))
    title = [f"{graph.role} of policy key {graph.policy_key!r}", f"{graph.n_parameters:,} parameters"]
    title += [graph.note] if graph.note else []
    heading = Label(x=_MARGIN, y=_MARGIN + 10, text=" · ".join(title), size=14, bold=True, anchor="start")
    y, bottom = _rows(layout, _edges(graph))
    boxes = [_box(graph, node, layout.x[node] + _MARGIN, y[node], widths[node]) for node in texts]
    right = max(box.x + box.width for box in boxes) + _MARGIN
    return Drawing(
        name=name,
        width=max(right, _MARGIN * 2 + len(heading.text) * heading.size * _WIDTH_OF_LETTER),
        height=bottom + _MARGIN,
        boxes=tuple(boxes),
        curves=tuple(_curve(edge, layout, y) for edge in _edges(graph)),
        labels=(heading, *(label for box, node in zip(boxes, texts, strict=True) for label in _set(texts[node], box))),
    )


def _texts(graph: NetworkGraph) -> dict[Node, list[str]]:
    """Two lines a box; inputs first, outputs last."""
    texts: dict[Node, list[str]] = {("in", key): [key, graph.shape_text(key)] for key in graph.inputs}
    for block in graph.blocks:
        gives = ", ".join(filter(None, map(graph.shape_text, block.out_keys)))
        texts["block", block.name] = [block.name, graph.caption(block), f"gives {gives}" if gives else ""]
    for name, key in graph.outputs.items():
        texts["out", name] = [name, graph.shape_text(key)]
    return texts


def _edges(graph: NetworkGraph) -> list[Edge]:
    source: dict[str, Node] = {key: ("in", key) for key in graph.inputs}
    source |= {key: ("block", block.name) for block in graph.blocks for key in block.out_keys}
    edges = [(source[key], ("block", block.name)) for block in graph.blocks for key in block.in_keys]
    edges += [(source[key], ("out", name)) for name, key in graph.outputs.items()]
    return list(dict.fromkeys(edges))


def _width(lines: Iterable[str]) -> float:
    sizes = (13, 11, 11)
    return max(len(line) * size * _WIDTH_OF_LETTER for line, size in zip(lines, sizes, strict=False)) + 22.0


def _height(node: Node) -> float:
    return _BLOCK_HEIGHT + 16.0 if _kind(node) == "block" else _TENSOR_HEIGHT


def _kind(node: Node) -> str:
    return str(node[0])


def _rows(layout: Layout, edges: Iterable[Edge]) -> tuple[dict[Node, float], float]:
    """Upper edge of each node, and the lowest edge of all."""
    reach: dict[Node, float] = {}
    for source, target in edges:
        reach[source] = max(reach.get(source, 0.0), abs(layout.x[source] - layout.x[target]))
    y: dict[Node, float] = {}
    top = bottom = _MARGIN + _TITLE_HEIGHT
    for layer in layout.layers:
        height = max(_height(node) for node in layer)
        y |= {node: top + (height - _height(node)) / 2 for node in layer}
        bottom = top + height
        top = bottom + _LAYER_GAP + _GAP_A_REACH * max(reach.get(node, 0.0) for node in layer)
    return y, bottom


def _box(graph: NetworkGraph, node: Node, centre: float, top: float, width: float) -> Box:
    kind, height = _kind(node), _height(node)
    if kind == "block":
        (block,) = [block for block in graph.blocks if ("block", block.name) == node]
        colour, shade, corner = "#3b82f6", 0.06 + 0.6 * graph.share(block), 6.0
    else:
        colour, shade, corner = ("#64748b" if kind == "in" else "#16a34a"), 0.16, height / 2
    return Box(
        x=centre - width / 2, y=top, width=width, height=height, round=corner, colour=colour, shade=min(shade, 1.0)
    )


def _set(lines: list[str], box: Box) -> list[Label]:
    middle = box.x + box.width / 2
    first = Label(x=middle, y=box.y + 17, text=lines[0], size=13, bold=True)
    return [first, *(Label(x=middle, y=box.y + 17 + 16 * i, text=t, size=11) for i, t in enumerate(lines) if i)]


def _curve(edge: Edge, layout: Layout, y: Mapping[Node, float]) -> Curve:
    source, target = edge
    start = (layout.x[source] + _MARGIN, y[source] + _height(source))
    end = (layout.x[target] + _MARGIN, y[target])
    bends = layout.bends[edge]
    if not bends:
        return Curve(points=(start, end))
    first = next(index for index, layer in enumerate(layout.layers) if source in layer) + 1
    points = []
    for index, x in enumerate(bends, first):
        middles = [y[node] + _height(node) / 2 for node in layout.layers[index]]
        points.append((x + _MARGIN, sum(middles) / len(middles)))
    return Curve(points=(start, *points, end))


def bezier(points: tuple[Point, ...]) -> list[tuple[Point, Point, Point]]:
    """Control points of the cubic pieces between points: every piece leaves and arrives vertically."""
    pieces = []
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        pieces.append(((x0, middle), (x1, middle), (x1, y1)))
    return pieces


def _svg_curve(curve: Curve) -> str:
    x, y = curve.points[0]
    path = f"M{x:.1f} {y:.1f}" + "".join(
        "C" + " ".join(f"{px:.1f} {py:.1f}" for px, py in piece) for piece in bezier(curve.points)
    )
    return f'<path d="{path}" fill="none" stroke="#5b6472" stroke-width="1.2" marker-end="url(#tip)"/>'


def _svg_box(box: Box) -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{box.round:.1f}" '
        f'fill="white"/><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{box.round:.1f}" fill="{box.colour}" fill-opacity="{box.shade:.2f}" stroke="{box.colour}"/>'
    )


def _svg_label(label: Label) -> str:
    weight = ' font-weight="bold"' if label.bold else ""
    return (
        f'<text x="{label.x:.1f}" y="{label.y:.1f}" font-size="{label.size}" text-anchor="{label.anchor}"{weight} '
        f'fill="#111827">{escape(label.text)}</text>'
    )
