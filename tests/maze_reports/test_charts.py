"""Charts: everything lies inside of the picture, higher is higher up, and ticks are round."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from maze_reports.charts.bars import choice_bars, number_bars
from maze_reports.charts.dots import DotRow, dot_chart
from maze_reports.charts.lines import Line, line_chart
from maze_reports.charts.parameters import Trial, parallel_coordinates, slices
from maze_reports.charts.scale import Scale, scale_of, short


def parsed(svg):
    """The picture, after looking whether all of it is inside."""
    picture = ElementTree.fromstring(svg)
    width, height = map(float, picture.get("viewBox").split()[2:])
    for element in picture.iter():
        for name, limit in (("x", width), ("cx", width), ("x1", width), ("x2", width), ("y", height), ("cy", height)):
            if element.get(name) is not None:
                assert -1 <= float(element.get(name)) <= limit + 1, element.attrib
        if element.tag == "path":
            for x, y in corners(element):
                assert -1 <= x <= width + 1
                assert -1 <= y <= height + 1
    return picture


def corners(path):
    return [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d"))]


def of_class(picture, name):
    return [element for element in picture.iter() if name in element.get("class", "").split()]


def words(picture):
    return ["".join(element.itertext()) for element in picture.iter("text")]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (-0.3, 0.2, [-0.3, -0.2, -0.1, 0, 0.1, 0.2]),
        (1000, 21000, [5000, 10000, 15000, 20000]),
    ],
)
def test_ticks_are_round_and_inside(low, high, ticks):
    assert Scale(low=low, high=high, start=0, end=100).ticks() == pytest.approx(ticks, abs=1e-12)


def test_a_logarithmic_scale_has_decades():
    scale = scale_of([1e-5, 1e-2], 0, 300, is_log=True)
    assert scale.ticks() == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert [round(scale(value)) for value in scale.ticks()] == [0, 100, 200, 300]


@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0], [-3.0], [float("nan"), float("inf"), 2.0]])
def test_a_scale_stands_whatever_there_is(values):
    scale = scale_of(values, 0, 100)
    assert scale.low < scale.high
    assert len(scale.ticks()) >= 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (999, "999"),
        (12000, "12k"),
        (1.5e6, "1.5M"),
        (2e9, "2G"),
        (1e-5, "1e-5"),
        (2.5e-4, "2.5e-4"),
        (-3000, "-3k"),
    ],
)
def test_numbers_of_axes_are_short(value, text):
    assert short(value) == text


def test_curves_are_steps_with_bands_and_points():
    x, y = np.array([100.0, 200.0, 300.0]), np.array([1.0, 5.0, 2.0])
    banded = Line(label="a", colour=0, x=x, y=y, band=(y - 0.5, y + 0.5))
    dotted = Line(label="b <&> c", colour=9, x=x, y=y, points=[(x, y + 1), (x, y - 1)])
    picture = parsed(line_chart([banded, dotted], title='a "title" <', x_label="steps"))
    one, other = of_class(picture, "line")
    places = corners(one)
    assert len(places) == 5
    assert places[0][1] == places[1][1], "a value holds until the next place"
    assert places[2][1] < places[0][1], "more is higher up"
    assert "s1" in other.get("class").split()
    assert "dash1" in other.get("class").split()
    assert len(of_class(picture, "band")) == 1
    assert len(of_class(picture, "point")) == 6
    assert "steps" in words(picture)
    assert "0" in words(picture), "the axis begins at zero"
    assert picture.get("aria-label") == 'a "title" <'


def test_a_chart_without_curves_is_an_empty_frame():
    assert of_class(parsed(line_chart([], title="nothing", x_label="steps")), "line") == []


def test_scores_lie_over_their_axis():
    scores = np.array([1.0, 4.0, 2.0])
    rows = [
        DotRow(label="a", note="n = 3", colour=0, scores=scores, centre=2.0, interval=(1.5, 3.5)),
        DotRow(label="b", note="n = 0", colour=None, scores=np.empty(0), centre=None, interval=None),
    ]
    picture = parsed(dot_chart(rows, title="scores", x_label="reward"))
    places = [float(dot.get("cx")) for dot in of_class(picture, "point")]
    assert places[0] < places[2] < places[1]
    (mark,) = of_class(picture, "mark")
    assert float(mark.get("x1")) == pytest.approx(places[2], abs=0.1)
    (interval,) = of_class(picture, "interval")
    assert places[0] < float(interval.get("x1")) < places[2] < float(interval.get("x2")) < places[1]


def test_bars_are_shares():
    heights = [
        float(bar.get("height"))
        for bar in of_class(parsed(choice_bars(np.array([1, 3, 0]), title="t", x_label="choice")), "bar")
    ]
    assert heights[1] == pytest.approx(3 * heights[0], rel=0.01)
    assert heights[2] == 0.0
    picture = parsed(number_bars(np.array([0.5, 0.5, 0.5]), title="t", x_label="value"))
    assert sum(float(bar.get("height")) > 0 for bar in of_class(picture, "bar")) == 1


@pytest.mark.parametrize(
    ("values", "counted"), [([np.nan, np.inf, 1.0], 1), ([-np.inf], 0), ([1e308, -1e308, 0.0], 3), ([], 0)]
)
def test_bars_of_numbers_that_are_not_finite_or_far_apart(values, counted):
    picture = parsed(number_bars(np.array(values), title="t", x_label="value"))
    assert sum(int(title.text.partition(",")[0]) for bar in of_class(picture, "bar") for title in bar) == counted


@pytest.fixture
def trials():
    rows = [
        ({"use": "ppo", "lr": 1e-5, "clip": 0.1}, 1.0),
        ({"use": "sac", "lr": 1e-2}, 3.0),
        ({"use": "ppo", "lr": 1e-3, "clip": 0.3}, None),
    ]
    return [Trial(name=f"trial {i}", parameters=p, value=v) for i, (p, v) in enumerate(rows)]


def test_every_trial_is_a_line_over_the_axes_that_apply(trials):
    picture = parsed(parallel_coordinates(trials, value_name="value"))
    lines = {"".join(line.itertext()): len(corners(line)) for line in of_class(picture, "line")}
    assert lines == {"trial 0: 1": 4, "trial 1: 3": 3, "trial 2: no value": 3}
    assert {"use", "lr", "clip", "value", "ppo", "sac"} <= set(words(picture))
    strengths = {"".join(group.itertext()): float(group.get("opacity")) for group in picture.iter("g")}
    assert strengths["trial 1: 3"] == 1.0 > strengths["trial 0: 1"]
    picture = parsed(parallel_coordinates(trials, value_name="value", minimize=True))
    strengths = {"".join(group.itertext()): float(group.get("opacity")) for group in picture.iter("g")}
    assert strengths["trial 0: 1"] == 1.0 > strengths["trial 1: 3"]


def test_axes_are_called_by_the_last_word_that_tells_them_apart():
    parameters = {"trainer.n_optimization_epochs": 3, "trainer[ppo].lr": 0.1, "trainer[sac].lr": 0.2}
    picture = parsed(
        parallel_coordinates([Trial(name="trial 0", parameters=parameters, value=1.0)], value_name="value")
    )
    shown = [name.text for name in of_class(picture, "name")]
    assert shown == ["n_optimization_epochs", "trainer[ppo].lr", "trainer[sac].lr", "value"]
    heights = [float(name.get("y")) for name in of_class(picture, "name")]
    assert heights[0] == heights[2] > heights[1] == heights[3]


def test_a_slice_has_the_trials_with_that_parameter_and_a_value(trials):
    found = {name: parsed(svg) for name, svg in slices(trials, value_name="value")}
    assert {name: len(of_class(picture, "point")) for name, picture in found.items()} == {"use": 2, "lr": 2, "clip": 1}
    low, high = (float(point.get("cx")) for point in of_class(found["lr"], "point"))
    assert low < high
    assert {"1e-5", "0.001"} <= set(words(found["lr"])), "three decades are shown on a logarithmic axis"
