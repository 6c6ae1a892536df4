"""The page docs/reference/experiment-file.md: every TOML block loads, and its tables say what the code says."""

import re
import sys
import types
from pathlib import Path

import pytest
import tomli

from maze_kernel.config import load_experiment, to_toml
from maze_kernel.config.description import ABSENT_TEXT, REQUIRED_TEXT, options_of
from maze_kernel.config.experiment import (
    CheckpointOptions,
    EvaluationOptions,
    Experiment,
    PluginOptions,
    VectorOptions,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "experiment-file.md"
TEXT = PAGE.read_text()
TOML = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
(PLUGIN,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
MINIMAL = {"name": "page", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}
OVERRIDES = re.findall(r"^\| `--set (.*?)` \|", TEXT, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    module = types.ModuleType("my_package.envs")
    module.make_env = lambda *, width: width
    monkeypatch.setitem(sys.modules, "my_package", types.ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.envs", module)
    return tmp_path


@pytest.mark.parametrize("block", TOML, ids=[str(i) for i in range(len(TOML))])
def test_every_toml_block_is_an_experiment(folder, block):
    data = tomli.loads(block)
    path = folder / "experiment.toml"
    path.write_text(block if "name" in data else to_toml({**MINIMAL, **data}))
    loaded = load_experiment(path)
    for table in data.keys() - {"preset"}:
        assert table in loaded.resolved


def test_the_plugin_file_gives_its_component(folder):
    path = folder / "experiment.toml"
    path.write_text(to_toml({**MINIMAL, "plugins": {"load": ["my_plugin.py"]}, "wrappers": [{"use": "double"}]}))
    assert load_experiment(path).experiment.wrappers[0].options == {"factor": 2.0}


@pytest.mark.parametrize("item", OVERRIDES)
def test_every_override_works(folder, item):
    assert len(OVERRIDES) == 6
    path = folder / "experiment.toml"
    path.write_text(TOML[0])
    assert load_experiment(path, overrides=[item.strip("'")]).overrides == (item.strip("'"),)


TABLES = {
    "vector": VectorOptions,
    "evaluation": EvaluationOptions,
    "checkpoint": CheckpointOptions,
    "plugins": PluginOptions,
}


def table_rows(heading):
    section = TEXT.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def expected_row(row):
    default = row.default if row.default in (REQUIRED_TEXT, ABSENT_TEXT) else f"`{row.default}`"
    kind = row.type.replace("|", "\\|")
    return f"| `{row.name}` | {kind} | {default} | {row.meaning} |"


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_the_kernel(name):
    assert table_rows(f"`[{name}]`") == [expected_row(row) for row in options_of(TABLES[name])]


def test_keys_at_the_top():
    keys = [row for row in options_of(Experiment) if row.name in ("name", "preset", "seed", "initialize_from")]
    assert table_rows("At the top") == [expected_row(row) for row in keys]
