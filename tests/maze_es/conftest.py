"""Updates of ES in the tests are small."""

import pytest


@pytest.fixture
def default_tables():
    trainer = {"use": "es", "n_rollouts_per_update": 6, "noise_stddev": 0.1, "noise": {"use": "seeded"}}
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 4}, "trainer": trainer}
