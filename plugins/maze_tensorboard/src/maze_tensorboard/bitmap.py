"""A drawing as pixels, which is what TensorBoard shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from maze_drawing.network_drawing import Box, Curve, Drawing, Label, Point, bezier

_SCALE = 1.5
_LARGEST = 4096.0
"""Pixels of the longer edge, at most."""
_LINE = (91, 100, 114)
_STEPS_A_PIECE = 16
_INSTEAD = {"×": "x", "−": "-", "→": "->", "…": "..."}
"""What stands for a character that the font of Pillow lacks; a question mark for all others."""


def pixels(drawing: Drawing) -> np.ndarray:
    """The drawing as (height, width, 3) bytes."""
    scale = min(_SCALE, _LARGEST / max(drawing.width, drawing.height))
    image = Image.new("RGB", (round(drawing.width * scale), round(drawing.height * scale)), "white")
    canvas = ImageDraw.Draw(image)
    for curve in drawing.curves:
        _draw_curve(canvas, curve, scale)
    for box in drawing.boxes:
        _draw_box(canvas, box, scale)
    for label in drawing.labels:
        _draw_label(canvas, label, scale)
    return np.asarray(image)


def _draw_box(canvas: ImageDraw.ImageDraw, box: Box, scale: float) -> None:
    red, green, blue = (int(box.colour[i : i + 2], 16) for i in (1, 3, 5))
    fill = tuple(round(255 + (part - 255) * box.shade) for part in (red, green, blue))
    edges = [edge * scale for edge in (box.x, box.y, box.x + box.width, box.y + box.height)]
    canvas.rounded_rectangle(edges, radius=box.round * scale, fill=fill, outline=(red, green, blue))


def _draw_curve(canvas: ImageDraw.ImageDraw, curve: Curve, scale: float) -> None:
    points = [(x * scale, y * scale) for x, y in _along(curve.points)]
    canvas.line(points, fill=_LINE, width=max(1, round(1.2 * scale)))
    x, y = points[-1]
    half = 3.5 * scale
    canvas.polygon([(x, y), (x - half, y - 2 * half), (x + half, y - 2 * half)], fill=_LINE)


def _along(points: tuple[Point, ...]) -> Iterator[Point]:
    """Points on the cubic pieces: B(t) = (1-t)³ p0 + 3 (1-t)² t p1 + 3 (1-t) t² p2 + t³ p3."""
    start = points[0]
    for piece in bezier(points):
        corners = np.array([start, *piece])
        t = np.linspace(0.0, 1.0, _STEPS_A_PIECE + 1)[:, None]
        weights = np.hstack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
        yield from map(tuple, weights @ corners)
        start = piece[-1]


def _writable(text: str) -> str:
    return "".join(letter if _is_in_font(letter) else _INSTEAD.get(letter, "?") for letter in text)


@cache
def _is_in_font(letter: str) -> bool:
    """Whether the font draws it otherwise than what no font has."""
    font = ImageFont.load_default(size=16)
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask("\uffff"))


def _draw_label(canvas: ImageDraw.ImageDraw, label: Label, scale: float) -> None:
    font = ImageFont.load_default(size=label.size * scale)
    place = (label.x * scale, label.y * scale)
    stroke = 0.35 * scale if label.bold else 0
    anchor = "ls" if label.anchor == "start" else "ms"
    canvas.text(place, _writable(label.text), fill=(17, 24, 39), font=font, anchor=anchor, stroke_width=stroke)
