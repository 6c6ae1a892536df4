"""PPO, ES and IMPALA solve CartPole-v1 with their workers on a cluster, as their examples do elsewhere."""

from pathlib import Path

import pytest
import tomli

from maze_kernel.config import experiment_from_mapping
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
SOLVED = 475.0


@pytest.mark.parametrize("algorithm", ["ppo", "es", "impala"])
def test_cartpole_is_solved_with_workers_on_the_cluster(algorithm, cluster, kernel, tmp_path):
    tables = tomli.loads((EXAMPLES / f"cartpole_{algorithm}.toml").read_text())
    tables["workers"] = {"use": "ray", "address": cluster.address, "count": 2, "shared_files": True}
    if algorithm == "ppo":
        tables["vector"]["mode"] = "workers"
    loaded = experiment_from_mapping(tables, kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert result.best_metric >= SOLVED
