"""Exit codes, and what the user sees when a command ends early."""

import importlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from maze_kernel.cli import guard
from maze_kernel.errors import ComponentError, EnvError, ExperimentError, Location, RequestError, WorkerError
from maze_kernel.plugin_files import module_name


def invoke(function, *arguments):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(guard.guarded(function, "test"))
    return CliRunner().invoke(app, list(arguments))


def raising(error):
    def command():
        raise error

    return command


def test_a_command_that_succeeds_exits_with_0_and_a_returned_code_is_kept():
    assert invoke(lambda: None).exit_code == 0
    assert invoke(lambda: 1).exit_code == 1


@pytest.mark.parametrize(("error", "code"), [(RequestError("bad request"), 2), (EnvError("broken env"), 1)])
def test_errors_of_maze_show_no_traceback_and_have_their_exit_code(error, code):
    done = invoke(raising(error))
    assert done.exit_code == code
    assert done.stderr.startswith(f"error: {error.what}")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_traceback_is_shown_on_request():
    assert "Traceback" in invoke(raising(RequestError("bad request")), "--traceback").stderr


def test_foreign_exceptions_show_traceback_and_phase():
    done = invoke(raising(ZeroDivisionError("boom")))
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: boom" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("error: ZeroDivisionError in ")
    assert done.stderr.rstrip().endswith("during maze test")


@pytest.mark.parametrize("error", [ZeroDivisionError("boom"), RequestError("bad request")])
def test_tracebacks_begin_with_the_command(error):
    told = invoke(raising(error), "--traceback").stderr
    assert "in command" in told
    assert "guard.py" not in told


@pytest.mark.parametrize("code", [0, None, 3])
def test_a_component_that_ends_the_process_is_a_failure_with_its_place(code):
    done = invoke(lambda: sys.exit(code))
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("error: SystemExit in ")


@pytest.mark.parametrize("as_plugin", [True, False])
def test_an_exception_in_a_file_of_the_user_names_that_file(tmp_path, monkeypatch, as_plugin):
    file = tmp_path / "my_parts.py"
    file.write_text("import json\ndef fail():\n    json.loads('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(module_name(file) if as_plugin else "my_parts")
    done = invoke(lambda: module.fail())
    assert done.stderr.rstrip().endswith(f"error: JSONDecodeError in {file}, fail during maze test")


def test_an_exception_inside_a_component_shows_its_traceback_plugin_and_phase():
    def command():
        try:
            raise ZeroDivisionError("boom")
        except ZeroDivisionError as cause:
            raise ComponentError("building env failed", phase="building env", owner="maze-x 1.0") from cause

    done = invoke(command)
    assert "ZeroDivisionError: boom" in done.stderr
    assert "building env" in done.stderr
    assert "maze-x 1.0" in done.stderr


def test_an_exception_inside_an_environment_shows_its_traceback_and_the_message_behind_it():
    def command():
        try:
            raise ZeroDivisionError("boom")
        except ZeroDivisionError as cause:
            raise EnvError("its step raised ZeroDivisionError: boom", owner="environment 2, step 13") from cause

    done = invoke(command)
    assert done.exit_code == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("error: its step raised ZeroDivisionError: boom\n  = owner: environment 2, step 13\n")


@pytest.mark.parametrize("options", [(), ("--traceback",)])
def test_the_traceback_of_a_worker_is_shown_once_and_the_message_behind_it(options):
    frames = "".join(f"  in frame {i}\n" for i in range(2 * guard.MAX_LINES))
    done = invoke(
        raising(WorkerError("actor 3 raised", remote_traceback=f"Remote traceback:\n{frames}", help="look")), *options
    )
    assert done.stderr.count("Remote traceback:") == 1
    assert done.stderr.count(f"in frame {2 * guard.MAX_LINES - 1}\n") == 1
    assert done.stderr.endswith("error: actor 3 raised\n  help: look\n")


def test_an_interruption_exits_with_130_in_at_most_three_lines():
    done = invoke(raising(KeyboardInterrupt()))
    assert done.exit_code == 130
    assert len(done.stderr.splitlines()) <= 3


def test_of_many_problems_a_screen_is_shown_in_full_and_every_other_one_in_a_line():
    source = "x" * 100_000
    problems = [
        RequestError(f"problem {i}", location=Location(file="a.toml", line=i + 1, column=1, source=source))
        for i in range(500)
    ]
    lines = guard.message_lines(ExperimentError(problems))
    assert lines[:2] == ["error: problem 0", "  --> a.toml:1:1"]
    assert max(map(len, lines)) <= 400
    assert [line.split(" (")[0] for line in lines if line.startswith("error:")] == [
        f"error: problem {i}" for i in range(500)
    ]
    first_short = next(i for i, line in enumerate(lines) if line.endswith(")"))
    assert first_short <= guard.MAX_LINES + 1
    assert lines[-1] == "error: problem 499 (a.toml:500:1)"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_on_a_terminal_only_and_not_with_no_color(monkeypatch):
    error = RequestError("bad request", help="do better")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = Terminal(), io.StringIO()
    guard.print_error(error, coloured)
    guard.print_error(error, plain)
    assert "\x1b[" in coloured.getvalue()
    assert plain.getvalue() == "error: bad request\n  help: do better\n"
    monkeypatch.setenv("NO_COLOR", "1")
    uncoloured = Terminal()
    guard.print_error(error, uncoloured)
    assert "\x1b[31" not in uncoloured.getvalue()
    assert "\x1b[1;31" not in uncoloured.getvalue()


def test_wrong_usage_exits_with_2(maze):
    assert maze("no-such-command").exit_code == 2
    assert maze("check", "--no-such-option").exit_code == 2
    assert maze("list-plugins", "surplus").exit_code == 2


def test_a_closed_pipe_is_no_failure():
    main = [sys.executable, "-c", "from maze_kernel.cli import main; main()", "schema"]
    maze = subprocess.Popen(main, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    maze.stdout.read(1)
    maze.stdout.close()
    error = maze.stderr.read().decode()
    assert maze.wait() == 0
    assert "BrokenPipe" not in error
    assert "Traceback" not in error


MAIN = [sys.executable, "-c", "from maze_kernel.cli import main; main()"]


@pytest.mark.parametrize(
    "closed", [pytest.param(own, marks=pytest.mark.slow) for own in (">&-", "2>&-", ">&- 2>&-")] + ["<&- >&- 2>&-"]
)
@pytest.mark.parametrize(("arguments", "code"), [(["schema"], 0), (["list-plugins"], 0), (["describe", "nonsense"], 2)])
def test_streams_that_are_closed_are_no_failure(closed, arguments, code):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, *MAIN, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.startswith("error: ") if code and "2>" not in closed else not done.stderr


def lines_into_a_full_disk(*command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()


needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")

PRINTS = """
import sys, typer
from maze_kernel.cli import guard
n_letters = int(sys.argv.pop())
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(guard.guarded(lambda: print("x" * n_letters), "test"))
app()
"""


@needs_full_device
@pytest.mark.parametrize("n_letters", [1, 100_000])
def test_a_full_disk_below_standard_output_is_said_in_a_line(n_letters):
    (line,) = lines_into_a_full_disk(sys.executable, "-c", PRINTS, str(n_letters))
    assert line.startswith("error: standard output cannot be written ([Errno 28]")
    assert line.endswith("all else is done and whole")


@needs_full_device
@pytest.mark.parametrize(
    "arguments",
    [["list-plugins"], *(pytest.param([own], marks=pytest.mark.slow) for own in ("--help", "--version", "schema"))],
)
def test_lists_and_help_meet_a_full_disk_with_the_same_line(arguments):
    (line,) = lines_into_a_full_disk(*MAIN, *arguments)
    assert line.startswith("error: standard output cannot be written ([Errno 28]")


def test_a_full_disk_elsewhere_keeps_its_traceback():
    done = invoke(raising(OSError(28, "No space left on device")))
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert "standard output" not in done.stderr


def test_an_unknown_command_names_those_that_are_spelt_like_it(maze):
    done = maze("shcema")
    assert done.exit_code == 2
    assert "did you mean: schema" in done.stderr


WARNING = """
import sys, warnings
from maze_kernel import cli
from maze_kernel.errors import MazeWarning
sys.argv = ["maze", "--version"]
try:
    cli.main()
except SystemExit:
    pass
warnings.warn("it goes on more slowly", MazeWarning)
warnings.warn("divided by nothing", RuntimeWarning)
"""


def test_a_warning_of_maze_is_one_line_and_others_keep_their_place():
    done = subprocess.run([sys.executable, "-c", WARNING], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "warning: it goes on more slowly",
        "<string>:11: RuntimeWarning: divided by nothing",
    ]
