"""The README lists every option as `maze describe` does, and its experiment fragment holds."""

import re
import tomllib
from pathlib import Path

import pytest

import maze_pettingzoo.plugin
from maze_kernel.config.description import describe
from maze_kernel.config.load import select
from maze_kernel.loader import Kernel

README = (Path(__file__).parents[2] / "plugins" / "maze_pettingzoo" / "README.md").read_text()


@pytest.mark.parametrize("env", ["pettingzoo", "pettingzoo-vector"])
def test_the_readme_lists_every_option(env):
    section = README.split(f"### `{env}`\n")[1].split("\n### ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    stated = {name.removeprefix("| "): (default, meaning.removesuffix(" |")) for name, _, default, meaning in rows}
    options = describe(Kernel.of(maze_pettingzoo.plugin), "env", env).options
    assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


def test_the_fragment_of_the_readme_holds():
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    selection = select(Kernel.of(maze_pettingzoo.plugin), "env", tomllib.loads(text)["env"])
    assert selection.options.rewards == "own"
