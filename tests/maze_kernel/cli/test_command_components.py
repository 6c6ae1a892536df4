"""Commands are components: any plugin adds one, `maze --help` imports none, and what is missing is named."""

import pytest
from typer.testing import CliRunner

import maze_kernel.builtin
from maze_kernel import hookimpl
from maze_kernel.cli.app import make_app
from maze_kernel.components import CommandComponent
from maze_kernel.loader import Kernel


class Greetings:
    """A plugin with one command that works and one whose module does not exist."""

    MAZE_PLUGIN_API = 1

    @staticmethod
    @hookimpl
    def maze_commands():
        yield CommandComponent(name="greet", target=f"{__name__}:greet", summary="Greets somebody.")
        yield CommandComponent(name="broken", target="no_such_module:command", summary="Cannot be imported.")


def greet(name: str = "world", loudly: bool = False) -> int:
    """Greets somebody, loudly if wanted."""
    print(f"HELLO {name.upper()}" if loudly else f"hello {name}")
    return 3 if name == "nobody" else 0


@pytest.fixture
def maze():
    app = make_app(Kernel.of(Greetings))
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_a_plugins_command_runs_with_its_own_options(maze):
    assert maze("greet", "--name", "ada", "--loudly").stdout == "HELLO ADA\n"
    assert maze("greet", "--name", "nobody").exit_code == 3


def test_help_lists_commands_without_importing_them(maze):
    listed = maze("--help").stdout
    assert "greet" in listed
    assert "Greets somebody." in listed
    assert "broken" in listed


def test_a_command_that_cannot_be_imported_says_whose_it_is(maze):
    done = maze("broken")
    assert done.exit_code == 2
    assert "no_such_module" in done.stderr
    assert "Greetings" in done.stderr


def test_every_command_has_help_of_its_own(maze):
    assert "loudly if wanted" in maze("greet", "--help").stdout


def test_a_missing_command_names_the_distribution_that_brings_it(maze):
    done = maze("train", "experiment.toml")
    assert done.exit_code == 2
    assert "pip install maze-runtime" in done.stderr


def test_a_command_of_two_plugins_is_not_said_to_be_missing():
    class Trains:
        MAZE_PLUGIN_API = 1

        @staticmethod
        @hookimpl
        def maze_commands():
            yield CommandComponent(name="train", target=f"{__name__}:greet", summary="Trains.")

    class TrainsToo(Trains):
        @staticmethod
        @hookimpl
        def maze_commands():
            yield CommandComponent(name="train", target=f"{__name__}:fixture", summary="Trains, too.")

    done = CliRunner().invoke(make_app(Kernel.of(Trains, TrainsToo)), ["train"])
    assert done.exit_code == 2
    assert "help: say whose: maze Trains:train or maze TrainsToo:train" in done.stderr
    assert "pip install" not in done.stderr


def test_two_plugins_with_one_command_are_told_apart():
    class Others:
        MAZE_PLUGIN_API = 1

        @staticmethod
        @hookimpl
        def maze_commands():
            yield CommandComponent(name="check", target=f"{__name__}:greet", summary="Another check.")

    app = make_app(Kernel.of(maze_kernel.builtin, Others))
    done = CliRunner().invoke(app, ["check", "x.toml"])
    assert done.exit_code == 2
    assert "2 plugins provide a command called 'check'" in done.stderr
    assert "say whose: maze Others:check or maze maze_kernel.builtin:check" in done.stderr
    assert "Others:check" in CliRunner().invoke(app, ["--help"]).stdout
