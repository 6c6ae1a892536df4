"""Every row of `benchmarks/kinds.py` is an experiment whose environment and networks can be built."""

import importlib
from pathlib import Path

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_runtime.run.assembly import Assembly

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"HalfCheetah": "mujoco", "mpe2": "mpe2", "ale_py": "ale_py"}


@pytest.fixture(scope="module")
def rows():
    """The rows by name; their environments are modules beside them and beside the examples."""
    pytest.importorskip("stable_baselines3")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("kind_rows").ROWS


@pytest.mark.slow
def test_every_row_can_be_built(rows, kernel):
    built = {name: _is_built(row, kernel) for name, row in rows.items()}
    assert len(built) >= 25
    assert {"cartpole", "masked", "dict", "structured", "batch-64"} <= {name for name, done in built.items() if done}


def _is_built(row, kernel):
    """Whether its model could be built; False where its environment's package is not installed."""
    env = str(row.experiment["env"])
    missing = [package for word, package in PACKAGES.items() if word in env and not importlib.util.find_spec(package)]
    if missing:
        return False
    assembly = Assembly(experiment_from_mapping({"name": "row", **row.experiment}, kernel=kernel), kernel)
    return assembly.make_model() is not None
