"""DQN is tested on CartPole where a test names nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for film and two_keys


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 2}}
