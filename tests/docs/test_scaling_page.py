"""The page on scaling has a place for the tables of benchmarks/cluster.py, and explains the figures in them."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/explanation/scaling.md"


@pytest.fixture
def benchmark(monkeypatch):
    """A module of the folder `benchmarks`, which imports its neighbours by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def figures(benchmark):
    """What an invented cluster would give: seconds of each part, by the number of actors."""
    seconds = {
        "calls": {1: 1e-3, 16: 5e-4},
        "answers-10mb": {1: 2e-2, 16: 1e-2},
        "broadcast-40kb": {1: 2e-3, 16: 17e-3},
        "broadcast-40mb": {1: 0.1, 16: 0.4},
    }
    figure = benchmark("cluster_tables").Figure
    return [
        figure(part, pool, n_actors, [1 / (value * slower)], [1 / value])
        for part, own in seconds.items()
        for n_actors, value in own.items()
        for pool, slower in (("subprocess", 1), ("Ray, 1 node", 2))
    ]


def test_new_tables_replace_those_between_the_comments_and_nothing_else(benchmark):
    tables = benchmark("cluster_tables")
    text = PAGE.read_text(encoding="utf-8")
    once = tables.replace_marked(text, "new tables")
    assert "\n\nnew tables\n\n" in once
    assert tables.replace_marked(once, "others") == once.replace("new tables", "others")
    assert once.partition(tables.BEGIN)[0] == text.partition(tables.BEGIN)[0]
    assert once.partition(tables.END)[2] == text.partition(tables.END)[2] != ""


def test_a_page_without_the_comments_is_refused(benchmark):
    with pytest.raises(SystemExit, match="no place"):
        benchmark("cluster_tables").replace_marked("a page", "tables")


def test_a_table_has_the_median_and_the_ratio_to_the_subprocess_pool(benchmark, figures):
    calls = next(table for table in benchmark("cluster_tables").tables(figures) if "Empty calls" in table)
    assert "| subprocess | 1 000 | 2 000 |" in calls
    assert "| Ray, 1 node | 500 (0.50) | 1 000 (0.50) |" in calls


def test_the_sums_are_those_of_the_page(benchmark, figures):
    module = benchmark("cluster_sums")
    costs = module.costs_of(figures, "Ray, 1 node")
    assert costs == pytest.approx((1e-3, 2e-3, 0.04, 2e-9))
    decisions, learning = 16 * 128, 16 * 128 * 2.9e-6
    rollout = decisions * 1e-2
    serving = 2e-3 + decisions * 47 * 2e-9
    thousand = module.sums(figures)[1]
    rows = {cells[1]: cells[2:5] for line in thousand.splitlines() if len(cells := re.split(r" *\| *", line)) == 6}
    assert rows["IMPALA, one core: actors it feeds on, W*"][2] == f"{rollout / max(serving, learning):_.0f}".replace(
        "_", " "
    )
    share = rollout / (rollout + 1000 * serving + 1000 * decisions * 11e-6)
    assert rows["PPO, one core: of their time actors work"][2] == f"{share:.0%}"


def test_the_page_explains_the_figures_that_the_sums_take(benchmark, figures):
    own_text = re.sub(r"<!-- begin:.*<!-- end:", "", PAGE.read_text(encoding="utf-8"), flags=re.S)
    named = set(re.findall(r"`(\w+)`", benchmark("cluster_sums").sums(figures)[0]))
    assert named == {"call", "load", "byte"}
    assert all(f"`{name}`" in own_text for name in named)
