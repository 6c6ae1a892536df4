"""The first-party plugins pass the suites that third parties are given."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import experiment_from_mapping, select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import flat_spaces
from maze_runtime.run.assembly import Assembly
from maze_testing.distributions import check_distribution
from maze_testing.models import check_model
from maze_testing.trainers import check_trainer

EXAMPLES = {
    "Discrete": spaces.Discrete(4, start=1),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
    "BoundedBox": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
    "PartlyBoundedBox": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, np.inf], np.float32)),
    "UnboundedBox": spaces.Box(-np.inf, np.inf, (2,), np.float32),
}

UNBOUNDED_SUPPORT = ("diagonal-gaussian",)


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.mark.parametrize("space", EXAMPLES)
def test_every_distribution_serves_the_spaces_it_names(kernel, space):
    served = [entry for entry in kernel.catalog.entries("distribution") if space in entry.component.spaces]
    assert served
    for entry in served:
        selection = select(kernel, "distribution", entry.component.name)
        check_distribution(
            lambda head, chosen=selection: kernel.catalog.build(chosen, head),
            EXAMPLES[space],
            stays_inside=entry.component.name not in UNBOUNDED_SUPPORT,
        )


def test_the_default_model(kernel):
    observation = spaces.Dict(
        {"observation": spaces.Box(-1, 1, (3,), np.float32), "extra": spaces.Box(-1, 1, (2,), np.float32)}
    )
    action = spaces.Dict({"move": EXAMPLES["Discrete"], "force": EXAMPLES["UnboundedBox"]})
    context = ModelContext(spaces=flat_spaces(observation, action), catalog=kernel.catalog, seed=3)
    selection = select(kernel, "model", kernel.catalog.default("model").component.name)
    check_model(lambda: kernel.catalog.build(selection, context), context.spaces)


@pytest.mark.parametrize("trainer", ["ppo", "a2c"])
def test_trainers(kernel, trainer):
    mapping = {
        "name": "conformance",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "vector": {"n_envs": 2},
        "wrappers": [],
        "trainer": {"use": trainer, "n_epochs": 4, "epoch_length": 1, "n_rollout_steps": 16},
    }

    def make():
        assembly = Assembly(experiment_from_mapping(mapping, kernel=kernel), kernel)
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)
