"""The suites of `maze_testing` on this plugin's components, and that its trainer learns."""

import gymnasium
import numpy as np
import pytest

from maze_hello import plugin
from maze_hello.clip import Clip
from maze_hello.options import ClipOptions, ResidualOptions
from maze_hello.residual import Residual
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces
from maze_testing.blocks import check_block
from maze_testing.transforms import check_transform


def test_the_plugin_loads():
    (record,) = Kernel.of(plugin).plugins
    assert record.status == "active", record.cause
    assert len(record.components) == 3


@pytest.mark.parametrize("limit", [0.1, 3.0])
def test_clip(limit):
    box = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    mask = gymnasium.spaces.MultiBinary(2)
    observation = gymnasium.spaces.Dict({"observation": box, "action_mask": mask})
    action = gymnasium.spaces.Dict({"action": gymnasium.spaces.Discrete(2)})
    check_transform(lambda: Clip(ClipOptions(limit=limit)), flat_spaces(observation, action))


def test_residual():
    check_block(lambda: Residual(["x"], ["y"], [(5,)], ResidualOptions()))
