"""Sweeps without runs: searchers on a space of every kind of leaf, and a function in the place of training."""

from pathlib import Path

import pytest

from maze_testing.searchers import SPACE


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A journal waits for the disk after each line, which nothing here is about."""
    import os

    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def make_context(tmp_path):
    from maze_sweeps.contract import SearchContext

    def make(space=None, folder: Path = tmp_path, **details):
        told = {"name": "poles", "n_trials": 30, "maximize": True, "seed": 7, **details}
        return SearchContext(space=space or SPACE, folder=folder, **told)

    return make


@pytest.fixture
def make_searcher(make_context):
    """`make_searcher(sampler="gp", context={...}, space=...)`; closed after the test."""
    from maze_optuna.options import OptunaOptions
    from maze_optuna.searcher import OptunaSearcher

    made = []

    def make(space=None, context=None, **options):
        options.setdefault("storage", "journal")
        made.append(OptunaSearcher(make_context(space, **(context or {})), OptunaOptions(**options)))
        return made[-1]

    yield make
    for searcher in made:
        searcher.close()
