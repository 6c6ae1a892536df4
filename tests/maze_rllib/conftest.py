"""Iterations of RLlib in the tests are short, and step environments in this process."""

import pytest

SHORT = {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 2}


@pytest.fixture
def default_tables():
    trainer = {"use": "rllib", "config": SHORT}
    model = {"use": "auto", "hidden_units": [16]}
    evaluation = {"n_episodes": 0}
    env = {"use": "gym", "id": "CartPole-v1"}
    return {"env": env, "vector": {"n_envs": 2}, "model": model, "trainer": trainer, "evaluation": evaluation}
