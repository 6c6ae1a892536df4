"""Learning curves of `suite.py`: a picture an algorithm with a panel a task, drawn by the charts of `maze report`.

Their colours stand in the style of its pages. A picture has to show itself alone, so the rules it needs are inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

from maze_reports.charts import drawing
from maze_reports.charts.lines import HEIGHT, Line, line_chart
from maze_reports.curves import carried_forward, common_grid
from maze_runtime.series.bootstrap import bootstrap_band, interquartile_mean
from suite_tasks import LIBRARIES

if TYPE_CHECKING:
    from suite_report import Group
    from suite_results import Results

COLUMNS = 3
TITLE, LEGEND = 26.0, 34.0


def picture(groups: Sequence[Group], results: Results, names: Mapping[str, str]) -> str:
    """An SVG file: panels in rows of three, a line a library.

    Args:
        groups: of one algorithm.
        results: with their curves.
        names: of the libraries.
    """
    panels: dict[tuple[str, int], list[Group]] = {}
    for group in groups:
        panels.setdefault((group.task.name, group.steps), []).append(group)
    width = drawing.WIDTH * min(COLUMNS, len(panels)) + drawing.RIGHT
    height = LEGEND + (TITLE + HEIGHT) * -(-len(panels) // COLUMNS)
    parts = _legend(groups, names)
    for index, ((task, _), own) in enumerate(panels.items()):
        x, y = drawing.WIDTH * (index % COLUMNS), LEGEND + (TITLE + HEIGHT) * (index // COLUMNS)
        parts.append(drawing.text(x + drawing.LEFT, y + 18, task, anchor="start", classes="name"))
        lines = [*_references(own[0]), *(_line(group, results) for group in own)]
        chart = line_chart(lines, title=task, x_label="environment steps")
        place = f'x="{x:.0f}" y="{y + TITLE:.0f}" width="{drawing.WIDTH:.0f}" height="{HEIGHT:.0f}"'
        parts.append(chart.replace("<svg ", f'<svg {place} overflow="visible" ', 1))
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{_style()}</style>", ground, *parts, "</svg>"]) + "\n"


def _references(group: Group) -> list[Line]:
    """Grey lines where a policy at random and a good one are."""
    steps = np.array([0.0, group.steps])
    return [Line(label="reference", colour=None, x=steps, y=np.full(2, score)) for score in group.task.range]


def _line(group: Group, results: Results) -> Line:
    """Interquartile mean, and its band or, where seeds are few, the runs as points."""
    curves = [results.curves[job].until(job.steps) for job in group.jobs]
    axes = [curve.env_steps.astype(np.float64) for curve in curves]
    grid = common_grid(axes)
    grid = grid[grid >= max(axis[0] for axis in axes)]
    values = np.stack([carried_forward(axis, curve.scores, grid) for axis, curve in zip(axes, curves, strict=True)])
    band = bootstrap_band(values, interquartile_mean)
    points = [] if band is not None else list(zip(axes, [curve.scores for curve in curves], strict=True))
    return Line(
        label=group.library,
        colour=LIBRARIES.index(group.library),
        x=grid,
        y=interquartile_mean(values.T),
        band=band,
        points=points,
    )


def _legend(groups: Sequence[Group], names: Mapping[str, str]) -> list[str]:
    parts, x = [], drawing.LEFT
    for library in LIBRARIES:
        if any(group.library == library for group in groups):
            classes = drawing.colour(LIBRARIES.index(library))
            text = f"{escape(names[library])} {groups[0].algorithm}"
            parts.append(drawing.line(x, 16, x + 24, 16, f"line {classes}"))
            parts.append(drawing.text(x + 32, 20, text, anchor="start", classes="name"))
            x += 56 + 8 * len(text)
    return [*parts, drawing.text(x, 20, "grey: at random, a good one", anchor="start")]


def _style() -> str:
    """The rules of the charts in the light colours of reports, without variables, which few viewers know."""
    page = (files("maze_reports") / "page.css").read_text(encoding="utf-8")
    light = page.partition("@media")[0]
    colours = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]+)", light))
    rules = [
        f"text{{font:12.5px system-ui,'DejaVu Sans',sans-serif;fill:{colours['soft']}}}",
        f".name{{fill:{colours['ink']};font-weight:600}}.grid{{stroke:{colours['line']}}}.axis{{stroke:{colours['soft']}}}",
        f".line.grey{{stroke:{colours['grey']};stroke-width:1.2;stroke-dasharray:5 4}}",
        ".line{fill:none;stroke-width:2}.band{opacity:.16}.point{fill-opacity:.45}",
    ]
    for index, _ in enumerate(LIBRARIES):
        own = colours[f"s{index}"]
        rules.append(f".line.s{index}{{stroke:{own}}}.band.s{index},.point.s{index}{{fill:{own}}}")
    return "".join(rules)
