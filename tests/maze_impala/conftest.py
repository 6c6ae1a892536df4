"""IMPALA is tested with few small rollouts where a test names nothing else."""

import pytest

SMALL = {"use": "impala", "epoch_length": 3, "num_actors": 4, "n_rollout_steps": 8, "actors_batch_size": 4}


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "trainer": SMALL, "wrappers": []}
