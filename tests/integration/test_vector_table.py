"""`[vector]`: its own keys, a mode, and the options of that mode."""

import jsonschema
import pytest

from maze_kernel.config import load_experiment, schema, to_toml
from maze_kernel.config.experiment import VectorOptions
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel

MINIMAL = {"name": "v", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.fixture
def read(kernel):
    """The experiment with this table."""
    return lambda table: experiment_from_mapping({**MINIMAL, "vector": table}, kernel=kernel)


def test_without_a_mode_the_rule_of_the_kernel_holds(read):
    assert read({}).experiment.vector == VectorOptions(n_envs=8, mode=None)
    assert read({"n_envs": 3, "mode": "auto"}).resolved["vector"] == {"n_envs": 3, "mode": "auto"}


def test_the_options_of_a_mode_stand_beside_it_with_their_defaults(read):
    loaded = read({"n_envs": 4, "mode": "subprocess", "n_processes": 3})
    assert loaded.experiment.vector.mode.options.n_processes == 3
    complete = {"n_envs": 4, "mode": "subprocess", "n_processes": 3, "step_timeout_seconds": 60.0, "max_restarts": 0}
    assert loaded.resolved["vector"] == complete
    assert read(complete).experiment == loaded.experiment


def test_a_mode_may_be_an_import_path_or_say_whose_it_is(read):
    for use in ("maze_runtime.rollout.vector_modes:sequential_batch", "maze-runtime:sequential"):
        assert read({"mode": use}).experiment.vector.mode.use == use


@pytest.mark.parametrize(
    ("table", "what", "near"),
    [
        ({"mode": "subproces"}, "no vector mode is called", "subprocess"),
        ({"n_env": 3}, "vector.n_env is not an option of [vector]", "n_envs"),
        ({"n_processes": 3}, "vector.n_processes is not an option of [vector]", None),
        ({"mode": "sequential", "n_processes": 3}, 'n_processes is not an option of vector mode "sequential"', None),
        (
            {"mode": "subprocess", "n_proceses": 3},
            'n_proceses is not an option of vector mode "subprocess"',
            "n_processes",
        ),
        ({"mode": "subprocess", "n_env": 3}, 'n_env is not an option of vector mode "subprocess"', "n_envs"),
        ({"mode": "subprocess", "n_processes": 0}, "vector.n_processes is out of range", None),
        ({"mode": 3}, "vector.mode has the wrong type", None),
        ({"n_envs": 0}, "vector.n_envs is out of range", None),
        (5, "vector has the wrong type", None),
    ],
)
def test_problems_are_named(read, table, what, near):
    with pytest.raises(ExperimentError) as caught:
        read(table)
    (problem,) = caught.value.problems
    assert what in problem.what
    assert near is None or near in problem.nearest


def test_an_option_of_no_mode_names_its_owner_and_line(kernel, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(to_toml({**MINIMAL, "vector": {"mode": "sequential", "speed": 3}}))
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, kernel=kernel)
    (problem,) = caught.value.problems
    assert problem.owner.startswith("maze-runtime ")
    assert path.read_text().splitlines()[problem.location.line - 1] == "speed = 3"


def test_the_schema_knows_modes_and_their_options(kernel):
    made = schema(kernel)
    validator = jsonschema.Draft202012Validator(made)

    def is_valid(table):
        return validator.is_valid({**MINIMAL, "vector": table})

    for table in (
        {},
        {"n_envs": 3},
        {"mode": "auto"},
        {"mode": "subprocess", "n_processes": 3},
        {"mode": "a.b:C", "x": 1},
    ):
        assert is_valid(table), table
    for table in (
        {"n_processes": 3},
        {"mode": "auto", "n_processes": 3},
        {"mode": "sequential", "n_processes": 3},
        {"n_envs": 0},
    ):
        assert not is_valid(table), table
