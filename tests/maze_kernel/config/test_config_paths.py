"""Options that become paths stay inside the run directory."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maze_kernel.config import inside_run_dir, path_inside
from maze_kernel.config.paths import check_run_name
from maze_kernel.errors import RequestError

GOOD = ["a", "statistics", "deep/er", "a b.csv", "v1.2/x_y-z.txt", "_x", "1"]
BAD = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "./a",
    "a//b",
    "a/",
    "~",
    "~root/x",
    "C:x",
    "c:/x",
    "a\\b",
    "..\\x",
    "\\\\host\\x",
    "a\0b",
    "a\nb",
    ".hidden",
    "a.",
    "a ",
    "con",
    "NUL.txt",
    "x/aux",
    "com1",
    "ä",
    "-rf",
    "experiment.toml",
    "run.json",
    "Run.json",
    "checkpoints",
    "checkpoints/last",
    "x" * 300,
    "$HOME",
    "a*b",
    "a:b",
]


@pytest.mark.parametrize("text", GOOD)
def test_allowed(tmp_path, text):
    inside_run_dir(None, None, text)
    assert path_inside(tmp_path, text) == tmp_path.resolve() / text


@pytest.mark.parametrize("text", BAD)
def test_refused(tmp_path, text):
    with pytest.raises(ValueError, match=r"path|run directory"):
        inside_run_dir(None, None, text)
    with pytest.raises(RequestError):
        path_inside(tmp_path, text)


@given(st.text(st.sampled_from("ab./\\~: C\0\n"), max_size=12) | st.text(max_size=12))
def test_whatever_passes_stays_inside(text):
    try:
        inside_run_dir(None, None, text)
    except ValueError:
        return
    root = "/runs/one"
    assert os.path.normpath(os.path.join(root, text)).startswith(root + "/")


def test_links_that_lead_out_are_refused(tmp_path):
    run_dir, outside = tmp_path / "run", tmp_path / "outside"
    run_dir.mkdir()
    outside.mkdir()
    (run_dir / "link").symlink_to(outside)
    (run_dir / "inner").mkdir()
    (run_dir / "fine").symlink_to(run_dir / "inner")
    with pytest.raises(RequestError, match="a link leads out of the run directory"):
        path_inside(run_dir, "link/file.csv")
    with pytest.raises(RequestError):
        path_inside(run_dir, Path("link"))
    assert path_inside(run_dir, "fine/file.csv") == run_dir.resolve() / "inner" / "file.csv"


def test_an_option_that_becomes_a_path_is_checked_in_the_file(problems, minimal):
    (problem,) = problems(minimal + 'folder = "../../home"\n')
    assert problem.what == "trainer.folder: the path must stay inside the run directory: no .."
    assert str(problem.location) == "experiment.toml:8:10"


@pytest.mark.parametrize("name", ["cartpole-ppo", "a", "A_1.b", "2026"])
def test_names_of_experiments(name):
    check_run_name(None, None, name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", ".a", "a.", "a b", "ä", "a\n", "nul", "x" * 200, "a\\b"])
def test_names_that_are_no_folder(name):
    with pytest.raises(ValueError, match="name"):
        check_run_name(None, None, name)
