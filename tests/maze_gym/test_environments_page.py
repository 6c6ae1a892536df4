"""Every block of docs/reference/environments.md runs, and the READMEs list every option."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config.description import describe
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/environments.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.fixture
def my_walk(tmp_path, monkeypatch):
    (tmp_path / "my_walk.py").write_text("\n".join(PYTHON))
    monkeypatch.syspath_prepend(tmp_path)


def _assembly(kernel, table):
    data = {"name": "page", "trainer": {"use": "ppo"}, "vector": {"n_envs": 2}, **table}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def test_the_gym_table_builds_what_it_says(kernel):
    envs = _assembly(kernel, tomllib.loads(TOML[0])).make_vector_env(2)
    tick = envs.reset([[1], [2]])
    for _ in range(100):
        assert not tick.truncated.any()
        tick = envs.step({"0": {"action": np.zeros((2, 1), np.float32)}})
    assert tick.truncated.all()
    envs.close()


def test_an_environment_and_a_wrapper_of_ones_own_are_selected_by_import_path(kernel, my_walk):
    table = {"env": {"use": "my_walk:make_env", "goal": 2}, "wrappers": [{"use": "my_walk:Negate", "factor": -3.0}]}
    envs = _assembly(kernel, table).make_vector_env(2)
    envs.reset([[1], [2]])
    right = {"0": {"direction": np.array([1, 1])}}
    assert envs.step(right).reward.tolist() == [0.0, 0.0]
    tick = envs.step(right)
    assert tick.reward.tolist() == [-3.0, -3.0]
    assert tick.terminated.all()


def test_the_wrapper_table_is_accepted_and_applied(kernel, my_walk):
    (wrappers,) = (tables["wrappers"] for tables in map(tomllib.loads, TOML) if "wrappers" in tables)
    normalization = next(table for table in wrappers if table["use"] == "observation-normalization")
    normalization["exclude"] = []
    normalization["keys"] = {"position": normalization["keys"].pop("speed")}
    envs = _assembly(kernel, {"env": {"use": "my_walk:make_env"}, "wrappers": wrappers}).make_vector_env(2)
    assert len(envs.transforms) == 4
    envs.reset([[1], [2]])
    tick = envs.step({"0": {"direction": np.array([1, 1])}})
    assert tick.groups["0"].observation["position"].tolist() == [pytest.approx([1 / 3.5])] * 2


@pytest.mark.parametrize("folder", ["maze_gym", "maze_wrappers"])
def test_the_readme_lists_every_component_and_option(kernel, folder):
    readme = (ROOT / "plugins" / folder / "README.md").read_text()
    components = [entry.component for entry in kernel.catalog.entries() if entry.component.target.startswith(folder)]
    assert components
    for component in components:
        assert f"`{component.name}`" in readme
        assert component.summary in readme
        for row in () if component.kind == "preset" else describe(kernel, component.kind, component.name).options:
            cells = (f"`{row.name}`", row.type.replace("|", "or"), f"`{row.default}`", row.meaning)
            assert f"| {' | '.join(cells)} |" in readme, f"{component.name}.{row.name}"
