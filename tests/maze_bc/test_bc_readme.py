"""The README lists every option as `maze describe` does, and its experiment fragment holds."""

import re
import tomllib
from pathlib import Path

from maze_kernel.config.description import describe
from maze_kernel.config.load import experiment_from_mapping

README = (Path(__file__).parents[2] / "maze_bc" / "README.md").read_text()


def test_the_readme_lists_every_option(kernel):
    table = README.partition("## Options")[2].partition("## Statistics")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    stated = {row[0].removeprefix("| "): (row[-2], row[-1].removesuffix(" |")) for row in rows}
    options = describe(kernel, "trainer", "bc").options
    assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


def test_the_fragment_of_the_readme_holds(kernel):
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    data = {"name": "readme", "env": {"use": "gym", "id": "CartPole-v1"}, **tomllib.loads(text)}
    assert experiment_from_mapping(data, kernel=kernel).experiment.trainer.options.n_epochs == 100
