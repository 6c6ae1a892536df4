"""What `maze check` and a training refuse before anything is built: components say so themselves, `check_ready`."""

from pathlib import Path

import pytest

PLUGIN = """
import attrs
from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent, WrapperComponent
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError

MAZE_PLUGIN_API = 1

@attrs.frozen(kw_only=True)
class Options:
    level: int = 0

    def check_ready(self):
        if self.level > 1:
            raise RequestError("the level cannot be served here", option="level", help="lower it")
        if self.level < 0:
            raise ZeroDivisionError("level")

class Nothing(Transform):
    def __init__(self, options):
        raise AssertionError("nothing is built")

class Writer:
    def __init__(self, context, options):
        raise AssertionError("nothing is built")

@hookimpl
def maze_wrappers():
    yield WrapperComponent(name="levelled", target="own_parts:Nothing", options="own_parts:Options")

@hookimpl
def maze_loggers():
    yield LoggerComponent(name="levelled", target="own_parts:Writer", options="own_parts:Options")
"""
EXPERIMENT = """name = "small"
env = { use = "gym", id = "CartPole-v1" }
[trainer]
use = "ppo"
n_epochs = 1
[[loggers]]
use = "levelled"
level = LOGGER
[[evaluation.wrappers]]
use = "levelled"
level = WRAPPER
[plugins]
load = ["own_parts.py"]
"""

FALLS = """
import gymnasium

class Falls(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        raise RuntimeError("it falls")
"""


@pytest.fixture
def levelled(maze):
    """Runs a command on an experiment whose wrapper and logger have levels; no folder of runs may be left."""

    def run(command, logger, wrapper, *options):
        Path("own_parts.py").write_text(PLUGIN)
        Path("small.toml").write_text(EXPERIMENT.replace("LOGGER", str(logger)).replace("WRAPPER", str(wrapper)))
        done = maze(command, "small.toml", *options)
        assert not Path("runs").exists()
        return done

    return run


@pytest.mark.parametrize("command", [("check",), ("train",), ("train", "--seeds", "0,1")])
def test_what_components_refuse_is_shown_at_once_where_it_stands(levelled, command):
    name, *options = command
    refused = levelled(name, 2, 3, *options)
    assert refused.exit_code == 2
    assert refused.output.count("error: the level cannot be served here") == 2
    assert "small.toml:8:9" in refused.output
    assert "small.toml:11:9" in refused.output
    assert "own_parts.py" in refused.output, "whose components they are"
    assert "ok (" not in refused.output


def test_components_that_are_ready_are_not_built_by_a_check(levelled):
    assert levelled("check", 0, 1).exit_code == 0


def test_a_component_that_fails_to_say_so_is_blamed(levelled):
    failed = levelled("check", -1, 0)
    assert failed.exit_code == 1
    assert "error: checking logger 'levelled' failed: ZeroDivisionError: level" in failed.output
    assert "small.toml:6:3" in failed.output
    assert "own_parts.py" in failed.output


@pytest.mark.parametrize("command", ["check", "train"])
def test_a_default_model_that_is_missing_is_found_before_a_run(maze, command):
    without = '[plugins]\ndisable = ["maze-perception"]\n'
    Path("small.toml").write_text(EXPERIMENT.partition("[[loggers]]")[0] + without)
    refused = maze(command, "small.toml")
    assert refused.exit_code == 2
    assert "error: no plugin provides a default model" in refused.output
    assert "small.toml:3:2" in refused.output
    assert "disabled: maze-perception" in refused.output
    assert not Path("runs").exists()
    assert "run directory" not in refused.output


@pytest.mark.parametrize("logger", ["mlflow", "wandb", "trackio"])
def test_a_tracker_without_its_package_is_refused_by_a_check(maze, kernel, monkeypatch, logger):
    if not any(entry.component.name == logger for entry in kernel.catalog.entries("logger")):
        pytest.skip(f"maze-{logger} is not installed")
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: None)
    Path("small.toml").write_text(EXPERIMENT.partition("[[loggers]]")[0] + f'[[loggers]]\nuse = "{logger}"\n')
    refused = maze("check", "small.toml")
    assert refused.exit_code == 2
    assert f"the logger '{logger}' needs the package {logger}" in refused.output
    assert "small.toml:6:3" in refused.output


OF_TRAINERS = [
    ("es", 'optimizer = { use = "torch.optim:Adamw" }', "module torch.optim has no Adamw"),
    ("bc", 'demonstrations = { path = "x" }\noptimizer = { use = "no_such_module:SGD" }', "no_such_module"),
    ("bc", 'demonstrations = { path = "x" }\nprocessor = { use = "own_code:kept" }', "importing own_code failed"),
]


@pytest.mark.parametrize(("trainer", "options", "message"), OF_TRAINERS)
def test_what_tables_of_a_trainer_import_is_imported_by_a_check(maze, trainer, options, message):
    Path("own_code.py").write_text("undefined\n")
    text = f'name = "small"\nenv = {{ use = "gym", id = "CartPole-v1" }}\n[trainer]\nuse = "{trainer}"\n{options}\n'
    Path("small.toml").write_text(text)
    refused = maze("check", "small.toml")
    assert refused.exit_code == 2
    assert message in refused.output
    line = text.count("\n")
    assert f"small.toml:{line}:" in refused.output
    assert f"maze-{trainer}" in refused.output


def test_a_check_whose_steps_fail_says_nothing_is_ok(maze):
    Path("own_env.py").write_text(FALLS)
    Path("small.toml").write_text(
        'name = "small"\nenv = { use = "gym", id = "own_env:Falls" }\ntrainer = { use = "ppo" }\n'
    )
    failed = maze("check", "small.toml", "--steps", "10")
    assert failed.exit_code == 1
    assert "it falls" in failed.output
    assert "ok (" not in failed.output
