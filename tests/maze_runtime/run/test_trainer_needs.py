"""A run whose workers collect by themselves has none of the wrappers that its trainer's defaults are meant for."""

import pytest

from maze_runtime.run.trainer_needs import goes_without

POOL = {"workers": {"use": "inline", "count": 2}}


@pytest.mark.parametrize(
    ("trainer", "tables", "without"),
    [
        ("ppo", {}, False),
        ("ppo", POOL, False),
        ("ppo", {**POOL, "vector": {"mode": "workers"}}, True),
        ("impala", {}, False),
        ("impala", POOL, True),
        ("es", POOL, True),
        ("es", {**POOL, "wrappers": ["observation-normalization"]}, False),
        ("dqn", POOL, False),
    ],
)
def test_who_goes_without(assemble, trainer, tables, without):
    assembly = assemble(trainer={"use": trainer}, **tables)
    assert goes_without(assembly.experiment, assembly.kernel.catalog) == without
    assert bool(assembly.experiment.wrappers) != (without or trainer == "dqn")
