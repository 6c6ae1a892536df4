import pytest

import maze_blocks_attention.plugin
import maze_blocks_graph.plugin
import maze_blocks_recurrent.plugin
import maze_distributions.plugin
import maze_perception.plugin
from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel


@pytest.fixture(scope="session")
def kernel():
    return Kernel.of(maze_perception.plugin, maze_distributions.plugin)


@pytest.fixture(scope="session")
def kernel_with_blocks():
    plugins = (
        maze_perception.plugin,
        maze_distributions.plugin,
        maze_blocks_attention.plugin,
        maze_blocks_graph.plugin,
        maze_blocks_recurrent.plugin,
    )
    return Kernel.of(*plugins)


@pytest.fixture
def make_model(kernel):
    """make_model(spaces, table) builds a model as an experiment's [model] table would."""

    def make(structured_spaces, table=None, seed=0):
        context = ModelContext(spaces=structured_spaces, catalog=kernel.catalog, seed=seed)
        value = table or kernel.catalog.default("model").qualified_name
        return kernel.catalog.build(select(kernel, "model", value), context)

    return make
