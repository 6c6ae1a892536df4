"""The README lists every option as `maze describe` does, and its experiment fragment holds."""

import re
import tomllib
from pathlib import Path

from maze_kernel.config.description import describe
from maze_kernel.config.load import experiment_from_mapping

README = (Path(__file__).parents[2] / "maze_impala" / "README.md").read_text()


def test_the_readme_lists_every_option(kernel):
    rows = [line.strip("|").split(" | ") for line in README.splitlines() if re.match(r"\| `[a-z_.]+` \|", line)]
    stated = {name.strip(): (type_, default, meaning.strip()) for name, type_, default, meaning in rows}
    options = describe(kernel, "trainer", "impala").options
    assert stated == {
        f"`{row.name}`": (row.type.replace("|", "or"), f"`{row.default}`", row.meaning) for row in options
    }


def test_the_fragment_of_the_readme_holds(kernel):
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    data = {"name": "readme", "env": {"use": "gym", "id": "CartPole-v1"}, **tomllib.loads(text)}
    assert experiment_from_mapping(data, kernel=kernel).experiment.trainer.options.num_actors == 16
