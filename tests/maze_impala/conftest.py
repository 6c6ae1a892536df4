"""Trainers built from an experiment, as the loop builds them."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_kernel.run.assembly import Assembly

SMALL = {"use": "impala", "epoch_length": 3, "num_actors": 4, "n_rollout_steps": 8, "actors_batch_size": 4}


@pytest.fixture(scope="session")
def kernel():
    return Kernel.installed()


@pytest.fixture
def assemble(kernel):
    """`assemble(trainer={...}, env={...}, **tables)` -> Assembly."""

    def build(**tables):
        trainer = {**SMALL, **tables.pop("trainer", {})}
        data = {"name": "test", "env": {"use": "gym", "id": "CartPole-v1"}, **tables}
        return Assembly(experiment_from_mapping({**data, "trainer": trainer}, kernel=kernel), kernel)

    return build


@pytest.fixture
def make_trainer(assemble):
    """A trainer that has started its first segment; closed after the test."""
    trainers = []

    def build(**tables):
        assembly = assemble(**tables)
        trainer = assembly.make_trainer(assembly.trainer_context())
        trainers.append(trainer)
        trainer.start_segment(0)
        return trainer

    yield build
    for trainer in trainers:
        trainer.close()
