"""The README of every distribution of blocks lists its blocks with all options, and its example builds."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import maze_perception.plugin
from maze_kernel.config import describe
from maze_kernel.config.load import select
from maze_kernel.loader import Kernel

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(folder.name for folder in ROOT.glob("plugins/maze_blocks_*"))


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_lists_every_block_and_option(name):
    kernel = Kernel.of(importlib.import_module(f"{name}.plugin"))
    readme = (ROOT / "plugins" / name / "README.md").read_text()
    entries = kernel.catalog.entries("block")
    assert entries
    for entry in entries:
        section = readme.partition(f"### `{entry.component.name}`\n")[2].partition("\n### ")[0]
        assert entry.component.summary in section
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        stated = {row[0].removeprefix("| "): (row[2], row[3].removesuffix(" |")) for row in rows}
        options = describe(kernel, "block", entry.component.name).options
        assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_the_readme_works(name):
    kernel = Kernel.of(maze_perception.plugin, importlib.import_module(f"{name}.plugin"))
    readme = (ROOT / "plugins" / name / "README.md").read_text()
    examples = re.findall(r"```(toml|python)\n(.*?)```", readme, re.DOTALL)
    assert examples
    for language, example in examples:
        if language == "toml":
            assert select(kernel, "model", tomllib.loads(example)["model"]).use == "concat"
        else:
            names = {}
            exec(compile(example, f"{name}/README.md", "exec"), names)
            assert names["latent"].isfinite().all()
