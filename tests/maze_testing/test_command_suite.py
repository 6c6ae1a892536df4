"""`check_command` accepts what is right and names what is wrong."""

from typing import Annotated

import pytest
import typer

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_testing.commands import check_command
from maze_testing.conformance import ConformanceError


class Plugin:
    """Commands, right and wrong."""

    MAZE_PLUGIN_API = 1

    @staticmethod
    @hookimpl
    def maze_commands():
        for name, summary in (("right", "Says a word."), ("refusing", "Refuses."), ("silent", ""), ("bare", "Bare.")):
            yield CommandComponent(name=name, target=f"{__name__}:{name}", summary=summary)


def right(word: Annotated[str, typer.Argument(help="What to say.")] = "yes"):
    """Says a word."""
    print(word)


def refusing(word: Annotated[str, typer.Argument(help="What to refuse.")]):
    """Refuses whatever it is given."""
    raise RequestError(f"{word} is refused")


def silent():
    """A command that no list explains."""


def bare(*, word):
    """A parameter without a type."""
    print(word)


@pytest.fixture
def kernel():
    return Kernel.of(Plugin)


def test_a_command_that_is_right_passes_and_its_output_is_given_back(kernel):
    assert check_command(kernel, "right", "no") == "no\n"


def test_the_exit_code_of_an_error_is_known(kernel):
    assert check_command(kernel, "refusing", "it", exit_code=2) == ""
    with pytest.raises(ConformanceError, match="ended with 2, not 0"):
        check_command(kernel, "refusing", "it")


@pytest.mark.parametrize(("name", "rule"), [("silent", "no summary"), ("bare", "without an annotation")])
def test_what_is_wrong_is_named(kernel, name, rule):
    with pytest.raises(ConformanceError, match=rule):
        check_command(kernel, name)


@pytest.mark.parametrize("name", ["list-plugins", "schema"])
def test_commands_of_the_kernel_conform(name):
    assert check_command(Kernel.installed(), name)
