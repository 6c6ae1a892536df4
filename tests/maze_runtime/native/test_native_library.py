"""Files of C++: built once, kept for later processes, and no harm where they cannot be built."""

import os
import subprocess

import pytest

from maze_runtime.native import library as native_library
from maze_runtime.native.library import build_library


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "answer.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    if build_library(path) is None:
        pytest.skip("no compiler here")
    return path


def test_a_function_is_called_by_its_name(source):
    assert build_library(source).answer() == 42


def test_what_was_built_before_needs_no_compiler(source, monkeypatch):
    def no_more(*arguments, **options):
        raise AssertionError("the compiler was called again")

    monkeypatch.setattr(native_library.subprocess, "run", no_more)
    assert build_library(source).answer() == 42


def test_another_text_is_built_anew(source):
    source.write_text('extern "C" int answer() { return 43; }\n')
    assert build_library(source).answer() == 43


def test_nothing_half_built_is_left_behind(source, tmp_path):
    source.write_text("no C++\n")
    assert build_library(source) is None
    assert [path.suffix for path in (tmp_path / "cache" / "maze").iterdir()] == [".so"]


@pytest.mark.parametrize("compiler", [None, "no-such-compiler", "false"])
def test_without_a_compiler_there_is_none(compiler, source, monkeypatch, tmp_path):
    """None at all, one that is not there, and one that fails."""
    monkeypatch.setenv("PATH", str(tmp_path) if compiler is None else os.environ["PATH"])
    if compiler is None:
        monkeypatch.delenv("CXX", raising=False)
    else:
        monkeypatch.setenv("CXX", compiler)
    assert build_library(source) is None


def test_a_compiler_that_hangs_is_given_up(source, monkeypatch):
    def hang(command, *, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(native_library.subprocess, "run", hang)
    source.write_text("something new\n")
    assert build_library(source) is None


def test_a_folder_that_nobody_may_write_to_is_no_harm(source, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    assert build_library(source) is None
