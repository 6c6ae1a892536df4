"""SAC is tested on Pendulum where a test names nothing else."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # for sac_environments and two_keys


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "Pendulum-v1"}, "vector": {"n_envs": 2}}
