"""Sweeps without runs: a space of every kind of leaf, searchers on it, and a function in the place of training."""

import sys
from pathlib import Path

import pytest

from maze_sweeps.space import Branch, Choice, Range, Space, Values

sys.path.insert(0, str(Path(__file__).parent))  # for searcher_checks


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A journal waits for the disk after each line, which nothing here is about."""
    import os

    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def everything():
    """The space of `make_everything`."""
    return make_everything()


def make_everything():
    """A space with every kind of leaf, and a choice inside a choice."""
    network = Choice(
        name="trainer[sac].critic",
        path="trainer.critic",
        branches=(
            Branch(label="twin", settings={"trainer.critic": "twin"}),
            Branch(
                label="many",
                settings={"trainer.critic": "many"},
                leaves=(Range(name="trainer[sac].critic[many].n", path="trainer.n", low=2, high=10, is_integer=True),),
            ),
        ),
    )
    tau = Range(name="trainer[sac].tau", path="trainer.tau", low=0.001, high=0.1, log=True)
    return Space(
        leaves=(
            Values(name="units", path="model.units", values=([64, 64], [256], {"a": 1, "b": [True]})),
            Values(name="mixed", path="env.mixed", values=(1, 2.5, "x", False)),
            Values(name="equal", path="env.equal", values=(1, True, 1.5)),
            Range(name="trainer.lr", path="trainer.lr", low=1e-5, high=1e-2, log=True),
            Range(name="scale", path="wrappers.scale", low=-1.0, high=1.0),
            Range(name="share", path="trainer.share", low=0.1, high=0.95, step=0.1),
            Range(name="vector.n_envs", path="vector.n_envs", low=8, high=63, step=8, is_integer=True),
            Range(name="batch", path="trainer.batch", low=1, high=4096, log=True, is_integer=True),
            Range(name="fixed", path="trainer.fixed", low=2.0, high=2.0),
            Choice(
                name="trainer",
                path="trainer",
                branches=(
                    Branch(
                        label="ppo",
                        settings={"trainer": {"use": "ppo"}},
                        leaves=(Range(name="trainer[ppo].clip", path="trainer.clip", low=0.1, high=0.4),),
                    ),
                    Branch(label="sac", settings={"trainer": {"use": "sac"}}, leaves=(tau, network)),
                ),
            ),
        )
    )


@pytest.fixture
def make_context(tmp_path):
    from maze_sweeps.contract import SearchContext

    def make(space=None, folder: Path = tmp_path, **details):
        told = {"name": "poles", "n_trials": 30, "maximize": True, "seed": 7, **details}
        return SearchContext(space=space or make_everything(), folder=folder, **told)

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
