"""The example in each hook's docstring works as written."""

import inspect
import re
import sys
import types

import pytest

from maze_kernel import components, hookimpl
from maze_kernel.components import COMPONENT_TYPES, load_attribute
from maze_kernel.hookspecs import MazeHooks
from maze_kernel.loader import HOOKS, Kernel


@pytest.fixture
def my_plugin(monkeypatch):
    module = types.ModuleType("my_plugin")
    module.__dict__.update(MAZE_PLUGIN_API=1, hookimpl=hookimpl, c=components)
    monkeypatch.setitem(sys.modules, "my_plugin", module)
    return module


def test_there_is_a_hook_for_every_kind():
    assert sorted(HOOKS.values()) == sorted(COMPONENT_TYPES)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_provides_a_component_whose_target_resolves(hook, my_plugin):
    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(getattr(MazeHooks, hook)), re.DOTALL)
    exec(compile(source, f"example of {hook}", "exec"), my_plugin.__dict__)
    kernel = Kernel.of(my_plugin)
    assert kernel.plugins[0].status == "active", kernel.plugins[0].cause
    (entry,) = kernel.catalog.entries()
    assert entry.component.kind == HOOKS[hook]
    assert kernel.catalog.find(HOOKS[hook], entry.component.name) is entry
    assert callable(load_attribute(entry.component.target))


def test_the_environment_of_the_example_keeps_its_contract(my_plugin):
    from maze_testing.envs import check_env

    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(MazeHooks.maze_envs), re.DOTALL)
    exec(source, my_plugin.__dict__)
    check_env(my_plugin.Guessing, n_steps=10)


def test_the_dataset_of_the_example_keeps_its_contract(my_plugin):
    from maze_testing.datasets import check_dataset
    from maze_testing.environments import Identity

    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(MazeHooks.maze_datasets), re.DOTALL)
    exec(source, my_plugin.__dict__)
    check_dataset(my_plugin.Standing, Identity)
