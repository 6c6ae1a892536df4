"""Networks of 128 units by default, and none of today's for a run that was begun without a model."""

import json

import pytest

from maze_kernel.errors import RequestError
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import train
from maze_suite import RunContext

TRAINER = {"use": "td3", "initial_buffer_size": 8, "batch_size": 8, "epoch_length": 8, "n_epochs": 1}


@pytest.fixture
def config():
    def of(**tables):
        experiment = {"name": "units", "env": {"use": "gym", "id": "Pendulum-v1"}, "trainer": TRAINER, **tables}
        return RunContext(experiment=experiment, silent=True).config

    return of


def test_units_are_those_of_the_preset_unless_the_experiment_says_otherwise(config):
    assert config()["model"]["hidden_units"] == [128, 128]
    assert config(wrappers=[])["model"]["hidden_units"] == [128, 128]
    assert config(model={"use": "auto", "non_lin": "tanh"})["model"]["hidden_units"] == [128, 128]
    assert config(model={"use": "auto", "hidden_units": [9]})["model"]["hidden_units"] == [9]
    assert config(trainer={**TRAINER, "use": "sac"})["model"]["hidden_units"] == [128, 128]
    assert config(trainer={"use": "dqn"}, env={"use": "gym", "id": "CartPole-v1"}).get("model") is None
    assert config()["vector"]["n_envs"] == 1


@pytest.fixture
def older(tmp_path):
    """A run directory whose experiment says nothing of a model, as versions before these defaults left them."""
    env = {"use": "gym", "id": "Pendulum-v1"}
    experiment = {"name": "older", "env": env, "trainer": TRAINER, "evaluation": {"n_episodes": 1}}
    RunContext(experiment=experiment, run_dir=tmp_path / "run", silent=True).train()
    assert stored_experiment(tmp_path / "run").experiment.model.option("hidden_units") == (128, 128)
    path = tmp_path / "run" / "run.json"
    stored = json.loads(path.read_text())
    del stored["experiment"]["model"]
    path.write_text(json.dumps(stored))
    return tmp_path / "run", experiment


def test_a_run_that_was_begun_without_a_model_keeps_none(older):
    """Its weights are those of the defaults of its time."""
    run, _ = older
    assert stored_experiment(run).experiment.model is None


def test_a_file_that_says_nothing_of_a_model_does_not_give_it_one(older):
    run, experiment = older
    more = {**experiment, "trainer": {**TRAINER, "n_epochs": 2}}
    loaded = RunContext(experiment=more, silent=True).loaded
    with pytest.raises(RequestError, match="cannot change what it trains") as refused:
        train(loaded, loaded.kernel, resume=run)
    assert refused.value.received == "model"
    assert "without a FILE" in refused.value.help
