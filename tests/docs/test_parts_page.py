"""The map of the parts leads somewhere: its files exist and hold what it names, and its drawing can be read.

So does the table of CONTRIBUTING.md that says what to read and touch.
"""

import re
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/how-the-parts-fit.md").read_text(encoding="utf-8")
PATHS = re.compile(r"`((?:maze_|tests/|docs/|plugins/|examples/)[\w/.-]*/[\w.-]+)`")


def found(path):
    """The file of a path that begins with a package or with a folder at the top."""
    package = path.partition("/")[0]
    tried = [ROOT / path, ROOT / package / "src" / path, ROOT / "plugins" / package / "src" / path]
    return next((file for file in tried if file.exists()), None)


def test_every_file_that_the_map_names_exists():
    paths = PATHS.findall(PAGE)
    assert len(paths) > 50
    assert [path for path in paths if found(path) is None] == []


def test_every_step_names_what_its_file_holds():
    steps = re.findall(r"^\d+\. `(\S+\.py)`: (.*?)(?=^\d+\. |\n\n)", PAGE, re.M | re.S)
    assert len(steps) > 45
    wrong = []
    for path, text in steps:
        code = found(path).read_text(encoding="utf-8")
        others = "".join(found(other).read_text(encoding="utf-8") for other in PATHS.findall(text))
        names = re.findall(r"`(?:[A-Z]\w*\.)?([A-Za-z_]\w*)`", text)
        wrong += [f"{name} is not in {path}" for name in names if not re.search(rf"\b{name}\b", code + others)]
    assert wrong == []


def test_what_contributors_read_and_test_with_exists():
    table = "".join(re.findall(r"^\|.*\|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M))
    paths = PATHS.findall(table)
    assert len(paths) > 7
    assert [path for path in paths if found(path) is None] == []
    suites = set(re.findall(r"`(check_\w+|\w+Suite)`", table))
    code = "".join(file.read_text(encoding="utf-8") for file in found("maze_testing/__init__.py").parent.glob("*.py"))
    assert len(suites) > 10
    assert [suite for suite in suites if not re.search(rf"^(def|class) {suite}\b", code, re.M)] == []
    hooks = found("maze_kernel/hookspecs.py").read_text(encoding="utf-8")
    assert [hook for hook in re.findall(r"`(maze_\w+s)`", table) if f"def {hook}(" not in hooks] == []


def test_nothing_in_the_drawing_lies_on_anything_else():
    drawing = (ROOT / "docs/figures/parts.svg").read_text(encoding="utf-8")
    places = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawing)
    boxes = [tuple(map(float, place)) for place in places]
    n_distributions = len([*ROOT.glob("maze_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")])
    assert len(boxes) == n_distributions
    for (x0, y0, width0, height0), (x1, y1, width1, height1) in combinations(boxes, 2):
        assert x0 + width0 < x1 or x1 + width1 < x0 or y0 + height0 < y1 or y1 + height1 < y0
