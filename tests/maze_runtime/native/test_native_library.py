"""Files of C++: built once, kept for later processes, and no harm where they cannot be built."""

import hashlib
import os
import shutil
import subprocess
import time

import pytest

from maze_kernel.errors import MazeWarning
from maze_runtime.native import library as native_library
from maze_runtime.native.library import build_library


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    native_library._warn.cache_clear()
    path = tmp_path / "answer.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    if build_library(path) is None:
        pytest.skip("no compiler here")
    return path


def test_a_function_is_called_by_its_name(source):
    assert build_library(source).answer() == 42


@pytest.fixture
def elsewhere(source, tmp_path, monkeypatch):
    """A copy of the cache, whose library this process has not loaded."""
    shutil.copytree(tmp_path / "cache", tmp_path / "elsewhere")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
    return tmp_path / "elsewhere" / "maze"


def test_what_was_built_before_needs_no_compiler(source, monkeypatch):
    def no_more(*arguments, **options):
        raise AssertionError("the compiler was called again")

    monkeypatch.setattr(native_library.subprocess, "run", no_more)
    assert build_library(source).answer() == 42


def test_another_text_is_built_anew(source):
    source.write_text('extern "C" int answer() { return 43; }\n')
    assert build_library(source).answer() == 43


@pytest.mark.parametrize("kept", [0.0, 0.6])
def test_a_library_that_is_not_whole_is_built_anew(kept, source, elsewhere):
    """A power cut leaves length zero; a copy that broke off, a part, of which the process would die."""
    (library,) = elsewhere.iterdir()
    whole = library.read_bytes()
    library.write_bytes(whole[: int(kept * len(whole))])
    assert build_library(source).answer() == 42
    assert [path.read_bytes() for path in elsewhere.iterdir()] == [whole]


def test_a_library_of_another_content_is_built_anew(source, elsewhere):
    (library,) = elsewhere.iterdir()
    whole = library.read_bytes()
    library.write_bytes(whole[:-100] + bytes(100))
    assert build_library(source).answer() == 42
    assert [path.read_bytes() for path in elsewhere.iterdir()] == [whole]


def test_a_library_that_does_not_load_is_built_anew(source, elsewhere):
    (library,) = elsewhere.iterdir()
    begins, _, _ = library.name.rpartition("-")
    library.unlink()
    (elsewhere / f"{begins}-{hashlib.sha256(b'of another machine').hexdigest()[:16]}.so").write_bytes(
        b"of another machine"
    )
    assert build_library(source).answer() == 42


def test_a_library_is_flushed_before_it_has_its_name(source, elsewhere, monkeypatch):
    (library,) = elsewhere.iterdir()
    library.unlink()
    seen = []
    monkeypatch.setattr(native_library, "_flush", lambda path: seen.append((path.suffix, library.exists())))
    assert build_library(source).answer() == 42
    assert seen == [(".so", False), ("", True)]


def test_what_builds_left_that_were_killed_is_removed(source, elsewhere):
    """Not what somebody builds now, nor what others keep there."""
    (library,) = elsewhere.iterdir()
    library.unlink()
    for name in ("building-then", "building-now", "of-others"):
        (elsewhere / name).mkdir()
        if name != "building-now":
            os.utime(elsewhere / name, (time.time() - 7200.0,) * 2)
    assert build_library(source).answer() == 42
    assert {path.name for path in elsewhere.iterdir()} == {"building-now", "of-others", library.name}


def test_nothing_half_built_is_left_behind(source, tmp_path):
    source.write_text("no C++\n")
    with pytest.warns(MazeWarning, match="the compiler says .*answer.cpp.*; torch and NumPy compute in its place"):
        assert build_library(source) is None
    assert [path.suffix for path in (tmp_path / "cache" / "maze").iterdir()] == [".so"]


@pytest.mark.parametrize(
    ("compiler", "why"),
    [(None, "there is no C.. compiler"), ("no-such-compiler", "no-such-compiler"), ("false", "ended with 1")],
)
def test_without_a_compiler_there_is_none(compiler, why, source, monkeypatch, tmp_path):
    """None at all, one that is not there, and one that fails."""
    monkeypatch.setenv("PATH", str(tmp_path) if compiler is None else os.environ["PATH"])
    if compiler is None:
        monkeypatch.delenv("CXX", raising=False)
    else:
        monkeypatch.setenv("CXX", compiler)
    with pytest.warns(MazeWarning, match=why) as told:
        assert [build_library(source), build_library(source, by_name=True)] == [None, None]
    assert len(told) == 1


def test_a_compiler_that_hangs_is_given_up(source, monkeypatch):
    def hang(command, *, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(native_library.subprocess, "run", hang)
    source.write_text("something new\n")
    with pytest.warns(MazeWarning, match="took more than 60 s"):
        assert build_library(source) is None


def test_a_folder_that_nobody_may_write_to_is_no_harm(source, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(MazeWarning, match="Not a directory"):
        assert build_library(source) is None
