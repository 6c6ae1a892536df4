"""The command line answers without importing what is heavy."""

import subprocess
import sys
import warnings

import pytest

from maze_kernel import cli

HEAVY = ("torch", "gymnasium", "scipy", "matplotlib", "tensorboard", "cattrs")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list-plugins"],
        ["list-plugins", "--json"],
        ["describe", "trainer"],
        ["check", "-h"],
    ],
)
def test_quick_commands_import_nothing_heavy(arguments):
    code = (
        "import sys\n"
        "from maze_kernel.cli import main\n"
        f"sys.argv = ['maze', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('HEAVY', loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("HEAVY []")


def test_click_is_never_imported_from_our_source():
    import ast
    from pathlib import Path

    import maze_kernel

    files = [*Path(maze_kernel.__file__).parent.rglob("*.py")]
    assert len(files) > 50
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "click" for name in names), file


def test_version_names_the_release(maze):
    from maze_kernel import __version__

    assert maze("--version").stdout == f"maze {__version__}\n"


def test_completion_script_is_offered():
    done = subprocess.run(
        [sys.executable, "-c", "from maze_kernel.cli import main; main()", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "SHELL": "/bin/bash",
            "HOME": "/tmp",
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        },
    )
    assert "complete" in done.stdout


def test_ctrl_c_while_plugins_load_is_answered_in_a_word(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("maze_kernel.cli.app.make_app", interrupt)
    monkeypatch.setattr(sys, "argv", ["maze", "check", "file.toml"])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert capsys.readouterr().err == "interrupted\n"
