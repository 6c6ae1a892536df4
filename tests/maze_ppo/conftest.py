"""Trainers are tested without the wrappers that their defaults bring."""

import pytest


@pytest.fixture
def default_tables():
    return {"env": {"use": "gym", "id": "CartPole-v1"}, "vector": {"n_envs": 4}, "wrappers": []}
