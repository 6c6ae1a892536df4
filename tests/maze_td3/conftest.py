"""TD3 is tested on Pendulum where a test names nothing else."""

import pytest


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "Pendulum-v1"}, "vector": {"n_envs": 2}}
