"""The script that draws learning curves: what it reads, and that the picture is whole."""

import csv
import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("draw_learning_curve", ROOT / "docs/draw_learning_curve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_run(tmp_path):
    """`make_run(name, {steps: reward})` -> a folder with these evaluations, as the CSV logger writes them.

    `epochs` are pairs (steps, reward) instead, where steps may be equal.
    """

    def make(name, rewards, epochs=None):
        folder = tmp_path / name / "statistics"
        folder.mkdir(parents=True)
        with open(folder / "eval.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("epoch", "env_steps", "wall_seconds", "tag", "value"))
            for epoch, (steps, reward) in enumerate(epochs or rewards.items(), start=1):
                writer.writerow((epoch, steps, 0.0, "BaseEnvEvents/reward/mean", reward))
                writer.writerow((epoch, steps, 0.0, "BaseEnvEvents/reward/max", 10_000))
        return tmp_path / name

    return make


def test_runs_of_one_name_show_mean_and_range_of_what_all_have(script, make_run):
    runs = [make_run("a", {100: 1.0, 200: 3.0, 300: 9.0}), make_run("b", {100: 2.0, 200: 7.0})]
    assert script.read(runs) == [(100.0, 1.5, 1.0, 2.0), (200.0, 5.0, 3.0, 7.0)]
    assert script.read([runs[0] / "statistics" / "eval.csv"])[-1] == (300.0, 9.0, 9.0, 9.0)


def test_the_picture_has_a_line_a_name_inside_its_frame(script, make_run, tmp_path):
    one, other = make_run("a", {100: -150.0, 200: 250.0}), make_run("b", {100: -40.0, 400: 20.0})
    script.main(str(tmp_path / "c.svg"), "two of them", f"first={one}", f"second={other}")
    picture = ElementTree.parse(tmp_path / "c.svg").getroot()
    lines = [line.get("points").split() for line in picture.iter(SVG + "polyline")]
    assert [len(points) for points in lines] == [2, 2]
    for x, y in (map(float, point.split(",")) for points in lines for point in points):
        assert 0 <= x <= script.WIDTH
        assert 0 <= y <= script.HEIGHT
    assert {"two of them", "first", "second", "-100", "200"} <= {text.text for text in picture.iter(SVG + "text")}
    assert float(lines[0][1].split(",")[1]) < float(lines[0][0].split(",")[1]), "a higher reward is higher up"


def test_runs_evaluated_at_different_steps_are_joined_by_straight_lines(script, make_run):
    runs = [make_run("a", {100: 0.0, 200: 4.0, 300: 6.0}), make_run("b", {150: 1.0, 250: 3.0, 350: 9.0})]
    assert script.read(runs) == [(150.0, 1.5, 1.0, 2.0), (250.0, 4.0, 3.0, 5.0)]  # where b was, which begins last


def test_runs_without_common_steps_are_refused(script, make_run):
    with pytest.raises(SystemExit, match="over the same steps"):
        script.read([make_run("a", {100: 1.0}), make_run("b", {200: 1.0})])


def test_runs_without_environment_steps_are_drawn_against_epochs(script, make_run, tmp_path):
    clone = make_run("clone", {}, epochs=[(0, 10.0), (0, 30.0), (0, 50.0)])
    assert script.column_of([clone]) == "epoch"
    assert script.column_of([clone, make_run("other", {100: 1.0})]) == "env_steps"
    assert [point.steps for point in script.read([clone], "epoch")] == [1.0, 2.0, 3.0]
    script.main(str(tmp_path / "c.svg"), "a clone", f"clone={clone}")
    picture = ElementTree.parse(tmp_path / "c.svg").getroot()
    assert "epochs" in {text.text for text in picture.iter(SVG + "text")}
