"""Conformance of commands: listed, explained, and ended by exit codes that mean what they mean everywhere."""

from __future__ import annotations

import inspect

from typer.testing import CliRunner

from maze_kernel.cli.app import make_app
from maze_kernel.loader import Kernel
from maze_testing.conformance import require

WRONG_REQUEST = 2
"""The exit code of a command line that makes no sense."""


def check_command(kernel: Kernel, name: str, *arguments: str, exit_code: int = 0) -> str:
    """Listed with a summary; every parameter is explained; wrong usage is refused; it ends as expected.

    Args:
        kernel: with the plugin, e.g. `Kernel.of(my_plugin.plugin)`.
        name: of the command.
        arguments: for one call.
        exit_code: that this call ends with.

    Returns:
        What that call printed on standard output.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    entry = kernel.catalog.find("command", name)
    require(bool(entry.component.summary.strip()), f"command {name!r} has no summary for `maze --help`")
    _check_help(kernel, name, list(inspect.signature(kernel.catalog.load(entry)).parameters))
    refused = _call(kernel, name, "--no-such-option")
    require(refused[0] == WRONG_REQUEST, f"command {name!r} ends an unknown option with {refused[0]}, not 2")
    code, output, errors = _call(kernel, name, *arguments)
    require(code == exit_code, f"command {name!r} ended with {code}, not {exit_code}: {errors or output}")
    return output


def _check_help(kernel: Kernel, name: str, parameters: list[str]) -> None:
    code, shown, errors = _call(kernel, name, "--help")
    require(code == 0, f"`maze {name} --help` ended with {code}: {errors}")
    texts = kernel.catalog.load(kernel.catalog.find("command", name)).__annotations__
    require(set(parameters) <= set(texts), f"command {name!r} has parameters without an annotation")
    lines = [line.strip() for line in shown.splitlines()]
    for parameter in parameters:
        spelt = {parameter, f"--{parameter.replace('_', '-')}"}
        bare = any(line in spelt for line in lines)
        require(not bare, f"parameter {parameter!r} of command {name!r} has no help text")


def _call(kernel: Kernel, name: str, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(make_app(kernel), [name, *arguments], prog_name="maze", env={"COLUMNS": "100"})
    return done.exit_code, done.stdout, done.stderr
