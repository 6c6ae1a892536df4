"""The kernel's conformance suite on every distribution of this plugin and every space it says it serves."""

import numpy as np
import pytest
from gymnasium import spaces

import maze_distributions.plugin as plugin
from maze_kernel.components import load_attribute
from maze_testing.distributions import check_distribution

SPACES = {
    "Discrete": spaces.Discrete(4, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
    "BoundedBox": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 10.0], np.float32)),
    "PartlyBoundedBox": spaces.Box(
        np.array([-1.0, 0.0, -np.inf, -np.inf], np.float32), np.array([1.0, np.inf, 3.0, np.inf], np.float32)
    ),
    "UnboundedBox": spaces.Box(-np.inf, np.inf, (2,)),
}
COMPONENTS = tuple(plugin.maze_distributions())


@pytest.mark.parametrize(
    ("component", "word"),
    # Samples of an unclipped normal distribution leave a bounded box by design.
    [
        (c, word)
        for c in COMPONENTS
        for word in c.spaces
        if c.name != "diagonal-gaussian" or word not in ("BoundedBox", "PartlyBoundedBox")
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_distribution_conforms(component, word):
    check_distribution(load_attribute(component.target), SPACES[word])


def test_each_space_has_one_default():
    defaults = [word for component in COMPONENTS for word in component.default_for]
    assert sorted(defaults) == sorted(SPACES)
