"""What parameters had to do with a value: parallel coordinates over all of them, and a slice for each."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import attrs
import numpy as np

from maze_reports.charts import drawing
from maze_reports.charts.scale import Scale, scale_of, short

_HEIGHT = 300.0
_AXIS_GAP = 130.0
_MIN_WIDTH = 900.0
_LOG_FACTOR = 50.0
"""Positive numbers that span more are shown on a logarithmic axis."""


@attrs.frozen(kw_only=True)
class Trial:
    """One point of a search.

    Attributes:
        parameters: setting to value; conditional ones are missing where they do not apply.
        value: what it came to; None: nothing.
    """

    name: str
    parameters: dict[str, Any]
    value: float | None


@attrs.frozen(kw_only=True)
class ParameterAxis:
    """Where the values of one parameter lie.

    Attributes:
        scale: of numbers, or of the places of `choices`.
        choices: values that are no numbers, as text; empty for numbers.
    """

    name: str
    scale: Scale
    choices: tuple[str, ...]

    def place(self, value: Any) -> float:
        """The pixel of a value."""
        return self.scale(self.choices.index(str(value)) if self.choices else float(value))

    def marks(self) -> list[tuple[float, str]]:
        """Pixels and what is written there."""
        if self.choices:
            return [(self.scale(index), choice[:16]) for index, choice in enumerate(self.choices)]
        return [(self.scale(tick), short(tick)) for tick in self.scale.ticks(4)]


def parallel_coordinates(trials: Sequence[Trial], *, value_name: str, minimize: bool = False) -> str:
    """A line a trial across an axis for each parameter and one for the value; the better, the stronger its colour.

    Args:
        trials: those without a value are drawn in grey and end before its axis.
        value_name: of the last axis.
        minimize: less is better.
    """
    names = _names(trials)
    top, bottom = 54.0, _HEIGHT - 16.0
    axes = [_axis(name, [t.parameters[name] for t in trials if name in t.parameters], bottom, top) for name in names]
    values = [trial.value for trial in trials if trial.value is not None]
    axes.append(ParameterAxis(name=value_name, scale=scale_of(values, bottom, top), choices=()))
    width = max(_MIN_WIDTH, _AXIS_GAP * len(axes))
    places = np.linspace(50.0, width - 50.0, len(axes))
    parts = []
    for trial in sorted(trials, key=lambda trial: _strength(trial, values, minimize)):
        points = [
            (float(x), axis.place(trial.parameters[axis.name]))
            for x, axis in zip(places[:-1], axes[:-1], strict=True)
            if axis.name in trial.parameters
        ]
        if trial.value is not None:
            points.append((float(places[-1]), axes[-1].place(trial.value)))
        parts.append(_trial_line(trial, points, _strength(trial, values, minimize)))
    shown = _brief([axis.name for axis in axes])
    for index, (x, axis) in enumerate(zip(places, axes, strict=True)):
        # Every other name stands higher, so that long ones do not meet.
        parts += _axis_parts(float(x), axis, shown[index], (top, bottom), top - 24 - 12 * (index % 2))
    return drawing.picture(parts, title="parameters and value of every trial", height=_HEIGHT, width=width)


def slices(trials: Sequence[Trial], *, value_name: str) -> list[tuple[str, str]]:
    """For each parameter its name and a picture of the values against it."""
    return [(name, _slice(name, trials, value_name)) for name in _names(trials)]


def _slice(name: str, trials: Sequence[Trial], value_name: str) -> str:
    height = 230.0
    points = [(t, t.parameters[name], t.value) for t in trials if name in t.parameters and t.value is not None]
    x = _axis(name, [value for _, value, _ in points], drawing.LEFT + 14, drawing.WIDTH - drawing.RIGHT - 14)
    y = scale_of([value for _, _, value in points], height - drawing.BOTTOM, drawing.TOP + 16, margin=0.05)
    parts = []
    for tick in y.ticks(4):
        parts.append(drawing.line(drawing.LEFT, y(tick), drawing.WIDTH - drawing.RIGHT, y(tick), "grid"))
        parts.append(drawing.text(drawing.LEFT - 6, y(tick) + 4, short(tick), anchor="end"))
    parts.append(drawing.line(drawing.LEFT, y.start, drawing.WIDTH - drawing.RIGHT, y.start, "axis"))
    parts += [drawing.text(place, y.start + 17, words) for place, words in x.marks()]
    parts.append(drawing.text(drawing.WIDTH / 2, y.start + 33, name, classes="label"))
    parts.append(drawing.text(drawing.LEFT, drawing.TOP + 4, value_name, anchor="start", classes="label"))
    parts += [
        drawing.dot(x.place(given), y(value), "point s0", f"{trial.name}: {given}, {short(value)}")
        for trial, given, value in points
    ]
    return drawing.picture(parts, title=f"{value_name} against {name}", height=height)


def _names(trials: Sequence[Trial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.parameters))


def _axis(name: str, values: Sequence[Any], start: float, end: float) -> ParameterAxis:
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        numbers = [float(value) for value in values]
        is_log = bool(numbers) and min(numbers) > 0 and max(numbers) / min(numbers) > _LOG_FACTOR
        return ParameterAxis(name=name, scale=scale_of(numbers, start, end, is_log=is_log), choices=())
    choices = tuple(sorted({str(value) for value in values}))
    return ParameterAxis(name=name, scale=scale_of(range(len(choices)), start, end), choices=choices)


def _strength(trial: Trial, values: Sequence[float], minimize: bool) -> float:
    """0 for the worst, 1 for the best; −1 without a value."""
    if trial.value is None:
        return -1.0
    rank = sum(other < trial.value for other in values) / max(len(values) - 1, 1)
    return 1.0 - rank if minimize else rank


def _trial_line(trial: Trial, points: Sequence[tuple[float, float]], strength: float) -> str:
    value = "no value" if trial.value is None else short(trial.value)
    classes = "grey" if strength < 0 else "s0"
    line = drawing.path(points, f"line {classes}", f"{trial.name}: {value}") if points else ""
    return f'<g opacity="{0.25 + 0.75 * max(strength, 0.0) ** 2:.2f}">{line}</g>'


def _brief(names: Sequence[str]) -> list[str]:
    """The last word of each name where that tells it from the others, else its end."""
    last = [name.rpartition(".")[2] for name in names]
    return [word if last.count(word) == 1 else name[-22:] for word, name in zip(last, names, strict=True)]


def _axis_parts(x: float, axis: ParameterAxis, name: str, ends: tuple[float, float], name_y: float) -> list[str]:
    top, bottom = ends
    parts = [drawing.line(x, top, x, bottom, "axis"), drawing.text(x, name_y, name[-24:], classes="name")]
    return parts + [
        drawing.text(x + 5, place + 4, words, anchor="start", classes="halo") for place, words in axis.marks()
    ]
