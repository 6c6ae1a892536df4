"""Files written with the words of other libraries: each gets the suggestion that is meant."""

import pytest

from maze_kernel.config import experiment_from_mapping, load_experiment
from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel
from maze_runtime.training.spellings import SPELLINGS

ENV = {"use": "gym", "id": "CartPole-v1"}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.mark.parametrize(
    ("trainer", "written", "ours"),
    [
        ("ppo", "learning_rate", "lr"),
        ("ppo", "n_steps", "n_rollout_steps"),
        ("ppo", "ent_coef", "entropy_coef"),
        ("ppo", "vf_coef", "value_loss_coef"),
        ("ppo", "total_timesteps", "max_env_steps"),
        ("ppo", "lam", "gae_lambda"),
        ("a2c", "learning_rate", "lr"),
        ("sac", "learning_starts", "initial_buffer_size"),
        ("sac", "buffer_size", "replay_buffer_size"),
        ("impala", "num_workers", "num_actors"),
        ("es", "sigma", "noise_stddev"),
        ("bc", "adam_eps", "adam_epsilon"),
    ],
)
def test_the_option_that_is_meant_is_suggested_alone(kernel, trainer, written, ours):
    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping({"name": "x", "env": ENV, "trainer": {"use": trainer, written: 1}}, kernel=kernel)
    found = [problem for problem in caught.value.problems if written in problem.what]
    assert [problem.nearest for problem in found] == [(ours,)]


def test_every_spelling_is_of_an_option_that_some_trainer_has_and_of_none_itself(kernel):
    options = [kernel.catalog.options_class(entry) for entry in kernel.catalog.entries("trainer")]
    names = {field.name for cls in options if cls is not None for field in cls.__attrs_attrs__}
    assert set(SPELLINGS.values()) <= names
    assert not set(SPELLINGS) & names


def test_an_environment_written_as_its_id_alone(kernel, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text('name = "x"\nenv = "CartPole-v1"\n[trainer]\nuse = "ppo"\n')
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, kernel=kernel)
    (problem,) = caught.value.problems
    assert problem.help == 'write use = "gym" and id = "CartPole-v1" in a table [env]'
    assert problem.location.line == 2
