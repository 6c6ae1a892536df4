"""The example in each hook's docstring works as written."""

import inspect
import json
import re
import sys
import types
from pathlib import Path

import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from maze_kernel import components, hookimpl
from maze_kernel.components import COMPONENT_TYPES, load_attribute
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.hookspecs import MazeHooks
from maze_kernel.loader import HOOKS, Kernel
from maze_runtime.env.flat import flat_spaces


@pytest.fixture
def my_plugin(monkeypatch):
    module = types.ModuleType("my_plugin")
    module.__dict__.update(MAZE_PLUGIN_API=1, hookimpl=hookimpl, c=components)
    monkeypatch.setitem(sys.modules, "my_plugin", module)
    return module


def example(hook):
    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(getattr(MazeHooks, hook)), re.DOTALL)
    return source


def test_there_is_a_hook_for_every_kind():
    assert sorted(HOOKS.values()) == sorted(COMPONENT_TYPES)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_provides_a_component_whose_target_resolves(hook, my_plugin):
    exec(compile(example(hook), f"example of {hook}", "exec"), my_plugin.__dict__)
    kernel = Kernel.of(my_plugin)
    assert kernel.plugins[0].status == "active", kernel.plugins[0].cause
    (entry,) = kernel.catalog.entries()
    assert entry.component.kind == HOOKS[hook]
    assert kernel.catalog.find(HOOKS[hook], entry.component.name) is entry
    target = load_attribute(entry.component.target)
    assert isinstance(target, dict) if hook == "maze_presets" else callable(target)


def test_the_environment_of_the_example_keeps_its_contract(my_plugin):
    from maze_testing.envs import check_env

    source = example("maze_envs")
    exec(source, my_plugin.__dict__)
    check_env(my_plugin.Guessing, n_steps=10)


def test_the_dataset_of_the_example_keeps_its_contract(my_plugin):
    from maze_testing.datasets import check_dataset
    from maze_testing.environments import Identity

    source = example("maze_datasets")
    exec(source, my_plugin.__dict__)
    check_dataset(my_plugin.standing, Identity)


def test_the_policy_of_the_example_plays_in_rollouts(tmp_path):
    from typer.testing import CliRunner

    from maze_kernel.cli.app import make_app
    from maze_testing.policies import check_policy

    source = example("maze_policies")
    head = "from maze_kernel import components as c, hookimpl\nMAZE_PLUGIN_API = 1\n"
    file = tmp_path / "my_plugin.py"
    file.write_text(head + source)
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        'name = "zero"\n[plugins]\nload = ["my_plugin.py"]\n[env]\nuse = "gym"\nid = "CartPole-v1"\n'
        '[trainer]\nuse = "ppo"\n'
    )
    app, runner = make_app(Kernel.installed()), CliRunner()
    done = runner.invoke(app, ["rollout", str(experiment), "--policy", "always-zero", "--episodes", "3", "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["n_failed"] == 0

    policy = load_attribute(Kernel.installed(load=[file]).catalog.find("policy", "always-zero").component.target)
    spaces = flat_spaces(
        Dict(x=Box(0.0, 1.0, (2,))), Dict(pick=Discrete(3), steer=Box(-1.0, 1.0, (2,)), bits=MultiBinary(2))
    )
    check_policy(lambda: policy(PolicyContext(spaces=spaces)), spaces)


CONTINUOUS = """
[env]
use = "gym"
id = "Pendulum-v1"
[model]
use = "auto"
distributions = [{ use = "steady", log_std = -2.0 }]
[trainer]
use = "ppo"
"""
SMALL = [f"trainer.{item}" for item in ("n_epochs=1", "epoch_length=1", "n_rollout_steps=8", "batch_size=8")]


@pytest.mark.parametrize(
    ("hook", "tables"),
    [
        ("maze_trainers", '[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "wary"\n'),
        ("maze_models", '[env]\nuse = "gym"\nid = "CartPole-v1"\n[model]\nuse = "one-layer"\nhidden_units = 5\n'),
        ("maze_distributions", CONTINUOUS),
    ],
)
def test_the_examples_that_are_trained_are_trained(maze, tmp_path, monkeypatch, hook, tables):
    monkeypatch.setattr(sys, "path", list(sys.path))
    head = "from maze_kernel import components as c, hookimpl\nMAZE_PLUGIN_API = 1\n"
    (tmp_path / "my_plugin.py").write_text(head + example(hook))
    trainer = "" if "[trainer]" in tables else '[trainer]\nuse = "ppo"\n'
    experiment = f'name = "small"\n[plugins]\nload = ["my_plugin.py"]\n{tables}{trainer}'
    (tmp_path / "small.toml").write_text(experiment)
    settings = [f"--set={item}" for item in [*SMALL, "evaluation.n_episodes=1"]]
    done = maze("train", "small.toml", "--out", "run", *settings)
    assert done.exit_code == 0, done.output
    resolved = json.loads((tmp_path / "run/run.json").read_text())["experiment"]
    if hook == "maze_trainers":
        assert resolved["trainer"]["clip_range"] == 0.1
    if hook == "maze_models":
        assert "dense layers of 5 units" in done.stderr


def test_every_hook_is_a_heading_of_the_page():
    page = Path(__file__).parents[2] / "docs/reference/hooks.md"
    fence, headings = "", []
    for line in page.read_text(encoding="utf-8").splitlines():
        marks = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line.rstrip() == line and line.strip("`") == "" and len(line) >= len(fence) else fence
        elif marks:
            fence = marks[0]
        elif line.startswith("## "):
            headings.append(line.removeprefix("## "))
    assert headings == list(HOOKS)
    assert not fence
