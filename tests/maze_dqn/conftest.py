"""DQN is tested on CartPole where a test names nothing else."""

import pytest


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 2}}
