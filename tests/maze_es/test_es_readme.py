"""The README lists every option as `maze describe` does, and its experiment fragment holds."""

import re
import tomllib
from pathlib import Path

import attrs

from maze_es.options import SGDOptions
from maze_kernel.config.description import describe
from maze_kernel.config.load import experiment_from_mapping

README = (Path(__file__).parents[2] / "maze_es" / "README.md").read_text()


def test_the_readme_lists_every_option(kernel):
    rows = [line.split(" | ") for line in README.splitlines() if line.startswith("| `")]
    stated = {name.removeprefix("| "): (default, meaning.removesuffix(" |")) for name, _, default, meaning in rows}
    options = describe(kernel, "trainer", "es").options
    assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


def test_the_readme_states_the_options_of_the_other_optimizer():
    (sentence,) = re.findall(r"^With `optimizer = \{ use = \"sgd\" \}`.*$", README, re.M)
    for field in attrs.fields(SGDOptions):
        assert field.name == "use" or f"`{field.name}` ({field.default})" in sentence


def test_the_fragment_of_the_readme_holds(kernel):
    text = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)[0]
    data = {"name": "readme", "env": {"use": "gym", "id": "CartPole-v1"}, **tomllib.loads(text)}
    assert experiment_from_mapping(data, kernel=kernel).experiment.trainer.options.n_rollouts_per_update == 64
