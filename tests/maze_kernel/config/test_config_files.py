"""What can be wrong with a file before its content is looked at."""

import os
from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.errors import ExperimentError


def test_byte_order_mark_and_windows_line_ends(load, minimal):
    windows = load(b"\xef\xbb\xbf" + minimal.replace("\n", "\r\n").encode())
    assert windows.experiment == load(minimal).experiment


def test_positions_do_not_shift_with_windows_line_ends(problems, minimal):
    text = b"\xef\xbb\xbf" + (minimal + "lr = true\n").replace("\n", "\r\n").encode()
    (problem,) = problems(text)
    assert (problem.location.line, problem.location.column) == (8, 6)
    assert problem.location.source == "lr = true"


def test_not_utf8(problems):
    (problem,) = problems(b'name = "x"\nauthor = "J\xfcrgen" # \xfc\n')
    assert problem.render() == (
        "error: the file is not UTF-8 text\n"
        "  --> experiment.toml:2:12\n"
        "    |\n"
        '  2 | author = "J�rgen" # �\n'
        "    |            ^\n"
        "  = received: byte 0xfc\n"
        "  = expected: UTF-8\n"
        "  help: save the file with UTF-8 encoding"
    )


def test_nul(problems):
    (problem,) = problems(b"name = \0\n")
    assert str(problem.location) == "experiment.toml:1:8"
    assert "NUL" in problem.help


def test_a_large_file_is_refused_unread(tmp_path):
    large = tmp_path / "large.toml"
    with large.open("wb") as stream:
        os.truncate(stream.fileno(), 100 * 2**20)
    with pytest.raises(ExperimentError) as caught:
        load_experiment(large)
    (problem,) = caught.value.problems
    assert "too large" in problem.what
    assert problem.location.file == str(large)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 50_000,
        "a = " + "[" * 60 + "]" * 60,
        "a = " + "{b=" * 300,
        "a = " + "{b=" * 60 + "1" + "}" * 60,
        ".".join(["a"] * 50_000) + " = 1",
        ".".join(["a"] * 900) + " = 1",
        "[" + ".".join(["a"] * 500) + "]\n" + ".".join(["a"] * 500) + " = 1",
    ],
    ids=["lists", "closed lists", "tables", "closed tables", "long key", "key", "header and key"],
)
def test_deep_nesting(problems, text):
    (problem,) = problems(text)
    assert problem.location.line == 1
    assert "nested" in problem.what or "TOML" in problem.what


def test_an_integer_too_long_to_read(problems):
    (problem,) = problems("a = " + "9" * 5000)
    assert str(problem.location) == "experiment.toml:1:5"


def test_a_missing_file_proposes_the_one_beside_it(tmp_path):
    (tmp_path / "cartpole.toml").write_text("")
    with pytest.raises(ExperimentError) as caught:
        load_experiment(tmp_path / "cartpol.toml")
    assert caught.value.problems[0].nearest == (str(tmp_path / "cartpole.toml"),)


@pytest.mark.parametrize("path", [".", "/", "a\0b", "x" * 5000])
def test_paths_that_are_no_files(path):
    with pytest.raises(ExperimentError):
        load_experiment(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    path = tmp_path / "secret.toml"
    path.write_text("")
    path.chmod(0)
    with pytest.raises(ExperimentError, match="Permission denied"):
        load_experiment(path)


SYNTAX = {
    "bare word": ("device = cuda\n", "1:10", 'quote text: "cuda"'),
    "python boolean": ("compile = True\n", "1:11", "write true in lower case"),
    "null": ("a = none\n", "1:5", "TOML has no null: leave the key out"),
    "duplicate key": ("a = 1\n  a = 2\n", "2:3", "a key or table stands there twice: keep one"),
    "duplicate table": ("[a]\n[b]\n[a]\n", "3:2", "a key or table stands there twice: keep one"),
    "unfinished string": ('a = "x\n', "1:7", "https://toml.io shows the syntax on one page"),
    "unfinished list": ("a = [1,\n2", "2:2", "https://toml.io shows the syntax on one page"),
}


@pytest.mark.parametrize(("text", "place", "help_"), SYNTAX.values(), ids=SYNTAX.keys())
def test_syntax_errors(problems, text, place, help_):
    (problem,) = problems(text)
    assert problem.what.startswith("not valid TOML: ")
    assert str(problem.location) == f"experiment.toml:{place}"
    assert problem.location.source is not None
    assert problem.help == help_


def test_control_characters_never_reach_the_terminal(problems):
    text = 'name = "x"\n"\\u001b[31m" = 1 # \t\n"a\\nb" = 2\n'
    rendered = "\n".join(problem.render() for problem in problems(text))
    assert "\x1b" not in rendered


def test_the_text_is_kept_verbatim(load, minimal):
    loaded = load(minimal)
    assert loaded.text == minimal
    assert Path(loaded.path) == Path("experiment.toml")
