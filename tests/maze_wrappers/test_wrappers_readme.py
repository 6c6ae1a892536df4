"""The README lists every wrapper with its options as `maze describe` does, and its examples hold."""

import re
import tomllib
from pathlib import Path

import pytest

from maze_kernel.config import describe
from maze_kernel.config.load import experiment_from_mapping

README = (Path(__file__).parents[2] / "plugins/maze_wrappers/README.md").read_text()
SECTIONS = {part.partition("`")[0]: part for part in README.partition("\n## Presets")[0].split("\n### `")[1:]}


def test_every_wrapper_has_its_section(kernel):
    entries = {
        e.component.name: e for e in kernel.catalog.entries("wrapper") if e.plugin.distribution == "maze-wrappers"
    }
    assert entries
    assert SECTIONS.keys() == entries.keys()
    for name, section in SECTIONS.items():
        assert entries[name].component.summary in section
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        stated = {row[0].removeprefix("| "): (row[2], row[3].removesuffix(" |")) for row in rows}
        options = describe(kernel, "wrapper", name).options
        assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", README, re.DOTALL))
def test_the_examples_hold(kernel, text):
    data = {"name": "readme", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
    assert experiment_from_mapping({**data, **tomllib.loads(text)}, kernel=kernel).experiment.wrappers
