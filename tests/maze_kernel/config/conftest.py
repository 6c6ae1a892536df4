"""A kernel with one toy plugin, and short ways to load text with it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "toys"
sys.path.insert(0, str(TOYS))

MINIMAL = """\
name = "test"

[env]
use = "grid"

[trainer]
use = "toy"
"""


@pytest.fixture(scope="session")
def kernel():
    from maze_kernel.loader import Kernel

    return Kernel.of(importlib.import_module("toy_plugin"))


@pytest.fixture
def load(kernel, tmp_path, monkeypatch):
    """Load experiment text as `experiment.toml` of the working directory."""
    from maze_kernel.config import load_experiment

    monkeypatch.chdir(tmp_path)

    def load_text(text, *overrides, **options):
        data = text if isinstance(text, bytes) else text.encode()
        Path("experiment.toml").write_bytes(data)
        return load_experiment("experiment.toml", overrides=overrides, kernel=kernel, **options)

    return load_text


@pytest.fixture
def problems(load):
    """The problems of experiment text."""
    from maze_kernel.errors import ExperimentError

    def problems_of(text, *overrides, **options):
        with pytest.raises(ExperimentError) as caught:
            load(text, *overrides, **options)
        return caught.value.problems

    return problems_of


@pytest.fixture
def minimal():
    return MINIMAL
