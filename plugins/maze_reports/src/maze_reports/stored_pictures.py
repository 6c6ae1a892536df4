"""The pictures of networks that the `drawing` logger left in a run, made fit to stand inside a page.

A run directory may come from anybody: only shapes and words are taken over, and nothing that could run or fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from maze_reports.settings import flat_settings
from maze_runtime.run.regular_file import read_regular

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_ELEMENTS = (
    "svg",
    "g",
    "title",
    "desc",
    "defs",
    "marker",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "text",
    "tspan",
)
_ATTRIBUTES = (
    *(
        "width",
        "height",
        "viewBox",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "d",
        "points",
        "dx",
        "dy",
    ),
    *(
        "fill",
        "fill-opacity",
        "stroke",
        "stroke-width",
        "opacity",
        "font-size",
        "font-weight",
        "text-anchor",
        "transform",
    ),
    *("id", "refX", "refY", "markerWidth", "markerHeight", "orient", "marker-end"),
)
_MAX_BYTES = 2 << 20


def network_pictures(run: Path, experiment: Mapping[str, object]) -> dict[str, str]:
    """Name of each network to its picture as an `svg` element; those that cannot be read are left out."""
    pictures = {}
    for number, file in enumerate(sorted(_folder(run, experiment).glob("*.svg"))):
        svg = safe_svg(file, prefix=f"n{number}-")
        if svg is not None:
            pictures[file.stem] = svg
    return pictures


def safe_svg(file: Path, prefix: str = "") -> str | None:
    """The shapes and words of a picture; None where it is none, or larger than 2 MiB.

    Args:
        file: an SVG file.
        prefix: put before the identifiers in it, which must be unique in a page.
    """
    try:
        if file.stat().st_size > _MAX_BYTES:
            return None
        source = ElementTree.fromstring(read_regular(file).decode())
    except (OSError, ValueError, ElementTree.ParseError):
        return None
    if source.tag != f"{_NAMESPACE}svg":
        return None
    picture = _copied(source, prefix)
    picture.set("class", "network")
    return ElementTree.tostring(picture, encoding="unicode")


def _folder(run: Path, experiment: Mapping[str, object]) -> Path:
    settings = flat_settings(experiment)
    return run / str(settings.get("loggers.drawing.folder") or "figures")


def _copied(source: ElementTree.Element, prefix: str) -> ElementTree.Element:
    element = ElementTree.Element(source.tag.removeprefix(_NAMESPACE))
    element.text = source.text
    for name, value in source.attrib.items():
        if name not in _ATTRIBUTES:
            continue
        if name == "id":
            value = prefix + value
        elif value.startswith("url("):
            value = f"url(#{prefix}{value.removeprefix('url(').strip('#)')})"
        if ":" not in value:
            element.set(name, value)
    for child in source:
        if child.tag.removeprefix(_NAMESPACE) in _ELEMENTS and child.tag.startswith(_NAMESPACE):
            element.append(_copied(child, prefix))
    return element
