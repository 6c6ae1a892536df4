import pytest
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app


@pytest.fixture
def maze(tmp_path, monkeypatch):
    """Runs the command line in an empty folder: `maze("check", "x.toml")`."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(make_app(), [str(argument) for argument in arguments])

    return run
