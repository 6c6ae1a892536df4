"""What holds where Ray is not installed: the plugin is listed and described, and says what is missing."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from maze_kernel.config.description import describe
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import PluginError
from maze_rllib import session

README = (Path(__file__).parents[2] / "plugins" / "maze_rllib" / "README.md").read_text()


def test_listing_plugins_imports_no_ray():
    code = (
        "import sys\nfrom maze_kernel.loader import Kernel\n"
        "kernel = Kernel.installed()\nkernel.catalog.find('trainer', 'rllib')\n"
        "import maze_rllib.options, maze_rllib.trainer\nprint([name for name in sys.modules if name == 'ray'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stderr


def test_what_is_missing_is_named(assemble, monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None if name in ("ray", "tree") else object())
    assembly = assemble()
    with pytest.raises(PluginError, match="needs Ray") as caught:
        assembly.make_trainer(assembly.trainer_context())
    assert caught.value.received == "without ray[tune], dm-tree"
    assert caught.value.help == 'pip install "ray[tune]" dm-tree'


def test_the_readme_lists_every_option(kernel):
    table = README.split("### `rllib`", 1)[1].split("\n## ", 1)[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    stated = {name.removeprefix("| "): (default, meaning.removesuffix(" |")) for name, _, default, meaning in rows}
    options = describe(kernel, "trainer", "rllib").options
    assert stated == {f"`{row.name}`": (f"`{row.default}`", row.meaning) for row in options}


def test_the_fragments_of_the_readme_hold(kernel):
    fragments = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert fragments
    for text in fragments:
        data = {"name": "readme", "env": {"use": "gym", "id": "CartPole-v1"}, **tomllib.loads(text)}
        assert experiment_from_mapping(data, kernel=kernel).experiment.trainer.use == "rllib"


def test_what_is_held_back_is_shown_where_an_exception_follows(capfd):
    with session.stderr_held_back():
        os.write(2, b"of no interest\n")
    with pytest.raises(FileNotFoundError), session.stderr_held_back():
        os.rmdir(b"/none" if os.write(2, b"why it went wrong\n") else b"")
    assert capfd.readouterr().err == "why it went wrong\n"
