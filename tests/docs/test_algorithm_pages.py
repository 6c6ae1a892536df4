"""Every algorithm that ships has a page, with its equations, curve, options and example."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/algorithms"
_spec = importlib.util.spec_from_file_location("docs_generate_algorithms", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(_spec)
sys.modules["docs_generate_algorithms"] = generate
_spec.loader.exec_module(generate)

ALGORITHMS = ["a2c", "bc", "es", "impala", "ppo", "sac", "sacfd"]


@pytest.fixture(scope="module")
def kernel():
    return generate.first_party_kernel()


def test_every_trainer_has_a_page_in_the_index(kernel):
    trainers = {entry.component.name for entry in kernel.catalog.entries("trainer")} - {"rllib"}
    assert trainers
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    for name in trainers:
        assert f"({name}.md)" in index
        assert f"<!-- options: trainer {name} -->" in (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_page_has_its_parts_and_its_options_are_those_of_the_source(name, kernel):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert {"What it computes", "Curve", "What it supports", "Example", "Options"} <= set(headings)
    assert "$$\n" in text
    assert re.search(r"\b(19|20)\d\d\b", text), "the source of the equations"
    assert re.search(r"!\[[^\]]+\]\(\.\./figures/\S+\.svg\)", text)
    assert "examples/" in text
    filled = generate.with_option_tables(generate.with_shown_code(text), kernel)
    assert text == filled, f"{name}.md is out of date: run make reference"


def test_a_table_lists_every_option(kernel):
    from maze_kernel.config import describe

    filled = generate.with_option_tables("<!-- options: trainer ppo -->\n<!-- /options -->\n", kernel)
    for option in describe(kernel, "trainer", "ppo").options:
        assert f"| `{option.name}` |" in filled


def test_sacfd_takes_the_agents_that_sac_takes():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| agents whose number changes \|.*$", index, re.M)
    assert row.count("| yes ") == row.count("|") - 2
    assert "of changing number too" in (FOLDER / "sacfd.md").read_text(encoding="utf-8")


def test_figures_of_the_choice_are_those_of_the_readmes():
    page = (FOLDER / "choosing.md").read_text(encoding="utf-8")
    header, cartpole, pendulum, lander = re.findall(r"^\| (?:\| PPO|CartPole|Pendulum|LunarLander).*$", page, re.M)
    names = [cell.strip() for cell in header.strip("|").split("|")][1:]
    sources = {"DQN": "plugins/maze_dqn", "SAC": "maze_sac", "TD3": "plugins/maze_td3", "IMPALA": "maze_impala"}
    sources |= {"ES": "maze_es", "PPO": ".", "A2C": "."}
    assert set(names) == set(sources)
    for row in (cartpole, pendulum, lander):
        for name, cell in zip(names, row.strip("|").split("|")[1:], strict=True):
            readme = (ROOT / sources[name] / "README.md").read_text(encoding="utf-8")
            for figure in re.findall(r"\d+ 000", cell):
                if name != "DQN":  # rounded
                    assert figure in readme, (name, figure)
