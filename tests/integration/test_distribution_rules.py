"""`[[model.distributions]]`: found by the loader, with file, line and caret, and known to editors."""

import jsonschema
import pytest

from maze_kernel.config import load_experiment, schema, to_toml
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel

MINIMAL = {"name": "v", "env": {"use": "gym", "id": "Pendulum-v1"}, "trainer": {"use": "ppo"}}


def with_rules(*rules):
    return {**MINIMAL, "model": {"use": "auto", "distributions": list(rules)}}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


def test_options_stand_beside_the_name_and_their_defaults_are_filled_in(kernel):
    loaded = experiment_from_mapping(
        with_rules({"space": "Box", "use": "squashed-gaussian", "max_log_std": 0}), kernel=kernel
    )
    (rule,) = loaded.experiment.model.options.distributions
    assert rule.use.options.max_log_std == 0.0
    complete = {
        "use": "squashed-gaussian",
        "space": "Box",
        "max_log_std": 0.0,
        "initial_log_std": 0.0,
        "min_log_std": -20.0,
        "std_from": "auto",
    }
    assert loaded.resolved["model"]["distributions"] == [complete]
    assert experiment_from_mapping(loaded.resolved, kernel=kernel).experiment == loaded.experiment


@pytest.mark.parametrize(
    ("rule", "what", "line", "near"),
    [
        ({"use": "betta"}, "no distribution is called 'betta'", 'use = "betta"', "beta"),
        ({"use": "beta", "speed": 3}, 'speed is not an option of distribution "beta"', "speed = 3", None),
        ({"use": "squashed-gaussian", "max_log_std": "x"}, "max_log_std has the wrong type", 'max_log_std = "x"', None),
        ({"use": "squashed-gaussian", "max_log_std": -30.0}, "is not greater", "max_log_std = -30.0", None),
        (
            {"use": "squashed-gaussian", "max_log_std": -1.0},
            "initial_log_std 0.0 is not between",
            "max_log_std = -1.0",
            None,
        ),
        (
            {"use": "squashed-gaussian", "min_log_std": 0.5},
            "initial_log_std 0.0 is not between",
            "min_log_std = 0.5",
            None,
        ),
        (
            {"use": "diagonal-gaussian", "initial_log_std": 3.0},
            "initial_log_std 3.0 is not between",
            "initial_log_std = 3.0",
            None,
        ),
        ({"use": "beta", "spaces": "Box"}, "spaces is not an option of", 'spaces = "Box"', "space"),
        (
            {"use": "squashed-gaussian", "log_std_init": -2.0},
            "log_std_init is not an option of",
            "log_std_init = -2.0",
            "initial_log_std",
        ),
        ({"use": 3}, "use has the wrong type", "use = 3", None),
        ({"space": "Box"}, "use is missing", "[[model.distributions]]", None),
    ],
)
def test_mistakes_have_a_line_before_anything_runs(kernel, tmp_path, rule, what, line, near):
    path = tmp_path / "experiment.toml"
    head = to_toml({**MINIMAL, "model": {"use": "auto"}})
    path.write_text(f"{head}\n[[model.distributions]]\n{to_toml(rule)}")
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, kernel=kernel)
    (problem,) = caught.value.problems
    assert what in problem.what
    assert path.read_text().splitlines()[problem.location.line - 1] == line
    assert near is None or near in problem.nearest


def test_the_schema_knows_distributions_and_policies(kernel):
    made = schema(kernel)
    validator = jsonschema.Draft202012Validator(made)
    for rule in ({"use": "beta"}, {"use": "squashed-gaussian", "space": "Box", "max_log_std": 0.5}, {"use": "a.b:C"}):
        assert validator.is_valid(with_rules(rule)), rule
    for rule in ({"use": "betta"}, {"use": "beta", "speed": 3}, {"space": "Box"}, {"use": "beta", "space": "Boxx"}):
        assert not validator.is_valid(with_rules(rule)), rule
    policies = jsonschema.Draft202012Validator({"$ref": "#/$defs/policy", "$defs": made["$defs"]})
    assert policies.is_valid({"use": "random"})
    assert not policies.is_valid({"use": "random", "speed": 3})
