"""Components of Maze that are not installed: the experiment's line, and the distribution that brings them."""

from pathlib import Path

import pytest

from maze_kernel.catalog import Catalog
from maze_kernel.config.load import load_experiment
from maze_kernel.errors import ExperimentError, PluginError
from maze_kernel.loader import Kernel
from maze_runtime.run.pools import with_count

START = 'name = "small"\nenv = { use = "gym", id = "CartPole-v1" }\ntrainer = { use = "ppo" }\n'
PARTS = {
    "maze-blocks-recurrent": '[model]\nuse = "concat"\n[model.blocks.feature]\nuse = "lstm-last-step"\n',
    "maze-blocks-conv": '[model]\nuse = "concat"\n[model.blocks.feature]\nuse = "nature-cnn"\n',
    "maze-distributions": '[model]\nuse = "auto"\n[[model.distributions]]\nspace = "Box"\nuse = "beta"\n',
    "maze-wrappers": '[[wrappers]]\nuse = "time-limit"\nmax_episode_steps = 9\n',
    "maze-csv": '[[loggers]]\nuse = "csv"\n',
    "maze-processes": '[vector]\nmode = "subprocess"\n',
    "maze-ppo": "",
    "maze-gym": "",
}


def kernel_without(distribution):
    kernel = Kernel.installed()
    kernel.plugins = tuple(plugin for plugin in kernel.plugins if plugin.distribution != distribution)
    kernel.catalog = Catalog(kernel.plugins)
    return kernel


@pytest.mark.parametrize("distribution", PARTS)
def test_a_part_of_an_experiment_that_is_missing_names_its_distribution(tmp_path, distribution):
    file = Path(tmp_path, "small.toml")
    file.write_text(START + PARTS[distribution])
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file, kernel=kernel_without(distribution))
    assert f"help: it comes with {distribution}: pip install {distribution}" in caught.value.render()
    assert "small.toml:" in caught.value.render()


def test_workers_that_are_asked_for_in_number_name_it_too():
    with pytest.raises(PluginError) as caught:
        with_count(kernel_without("maze-processes").catalog, None, 3)
    assert "pip install maze-processes, or name a pool" in caught.value.help
