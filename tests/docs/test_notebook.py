"""The notebook of the first run: a notebook, without stored outputs, whose cells run in order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs/tutorial/first-run.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def test_it_is_a_notebook_without_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in CELLS}) == len(CELLS)
    for cell in CELLS:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert len(CODE) >= 5


def test_its_links_lead_somewhere():
    text = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(targets) >= 5
    assert [target for target in targets if not (NOTEBOOK.parent / target).exists()] == []


def test_pages_link_to_it():
    for page in ("first-run.md", "index.md"):
        assert "(first-run.ipynb)" in (NOTEBOOK.parent / page).read_text(encoding="utf-8")


# A cell ends with what it shows: in a notebook the value of its last line is displayed.
RUNNER = """
import ast, json, sys

cells = json.load(sys.stdin)
namespace = {"__name__": "__main__"}
for number, source in enumerate(cells, start=1):
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
        show = getattr(value, "_repr_html_", None)
        print("shown:", len(show()) if show else value)
"""


@pytest.mark.slow
def test_its_cells_run_in_order(tmp_path):
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        cwd=tmp_path,
        env=environment,
        input=json.dumps(CODE),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "done after" in done.stdout
    rewards = [line for line in done.stdout.splitlines() if line.startswith(("trained", "random"))]
    means = [float(re.search(r"'mean': (-?[\d.]+)", line)[1]) for line in rewards]
    assert len(means) == 4
    assert means[0] > means[1] + 50  # CartPole: some 450 beside 20
    assert means[2] > means[3] + 20  # the tank: some −13 beside −60
    assert "did you mean: lr" in done.stdout
    (page,) = re.findall(r"^shown: (\d+)$", done.stdout, re.M)
    assert int(page) > 10_000
    assert (tmp_path / "runs/notebook/run.json").exists()
