"""Updates of ES in the tests are small."""

import pytest


@pytest.fixture
def default_tables():
    trainer = {"use": "es", "n_rollouts_per_update": 6, "noise_stddev": 0.1, "noise": {"use": "seeded"}}
    env = {"use": "gym", "id": "CartPole-v1"}
    return {"env": env, "vector": {"n_envs": 4}, "trainer": trainer, "wrappers": []}
