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
        ("impala", "n_steps", "n_rollout_steps"),
        ("dqn", "n_steps", "n_step"),
        ("td3", "n_steps", "n_step"),
        ("dqn", "dueling", "duelling"),
        ("dqn", "exploration_initial_eps", "epsilon.start"),
        ("dqn", "exploration_final_eps", "epsilon.end"),
        ("td3", "action_noise", "exploration_noise"),
        ("td3", "target_policy_noise", "target_noise"),
        ("sac", "alpha", "entropy_coef"),
    ],
)
def test_the_option_that_is_meant_is_suggested_alone(kernel, trainer, written, ours):
    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping({"name": "x", "env": ENV, "trainer": {"use": trainer, written: 1}}, kernel=kernel)
    found = [problem for problem in caught.value.problems if written in problem.what]
    assert [problem.nearest for problem in found] == [(ours,)]


@pytest.mark.parametrize(
    ("trainer", "written"),
    [
        ("sac", "n_steps"),
        ("sac", "target_entropy"),
        ("sac", "replay_buffer_class"),
        ("dqn", "replay_buffer_kwargs"),
        ("td3", "policy"),
        ("td3", "policy_kwargs"),
        ("td3", "noise_std"),
        ("ppo", "policy"),
        ("ppo", "env"),
    ],
)
def test_words_without_a_counterpart_are_not_taken_for_an_option_that_looks_alike(kernel, trainer, written):
    with pytest.raises(ExperimentError) as caught:
        experiment_from_mapping({"name": "x", "env": ENV, "trainer": {"use": trainer, written: 1}}, kernel=kernel)
    (problem,) = [problem for problem in caught.value.problems if written in problem.what]
    assert problem.nearest == ()
    assert problem.help == f"maze describe trainer {trainer} lists the options"


def test_every_spelling_is_of_an_option_that_some_trainer_has_and_of_none_itself(kernel):
    options = [kernel.catalog.options_class(entry) for entry in kernel.catalog.entries("trainer")]
    names = {field.name for cls in options if cls is not None for field in cls.__attrs_attrs__}
    assert set(SPELLINGS.values()) - {""} <= names
    for cls in filter(None, options):
        own = {field.name for field in cls.__attrs_attrs__}
        theirs = {name: meant for name, meant in getattr(cls, "ALIASES", {}).items() if SPELLINGS.get(name) != meant}
        assert {meant.partition(".")[0] for meant in theirs.values()} - {""} <= own
        assert not set(theirs) & own
    assert not set(SPELLINGS) & names


def test_an_environment_written_as_its_id_alone(kernel, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text('name = "x"\nenv = "CartPole-v1"\n[trainer]\nuse = "ppo"\n')
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, kernel=kernel)
    (problem,) = caught.value.problems
    assert problem.help == 'write use = "gym" and id = "CartPole-v1" in a table [env]'
    assert problem.location.line == 2
