"""SAC learns within the steps its README says, alone and from demonstrations."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from maze_kernel.config import load_experiment
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [int(seed) for seed in os.environ.get("MAZE_LEARNING_SEEDS", "0").split(",")]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_pendulum_swings_up_within_10_000_steps(kernel, tmp_path, seed):
    overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', "trainer.max_env_steps=10000"]
    loaded = load_experiment(EXAMPLES / "pendulum_sac.toml", overrides=overrides, kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert result.env_steps <= 10_000
    assert result.best_metric >= -200.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_running_statistics_do_not_keep_the_pendulum_down(kernel, tmp_path, seed):
    wrappers = "[{use='observation-normalization', statistics='running'}, {use='return-normalization'}]"
    overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', "trainer.max_env_steps=10000", f"wrappers={wrappers}"]
    loaded = load_experiment(EXAMPLES / "pendulum_sac.toml", overrides=overrides, kernel=kernel)
    assert train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1).best_metric >= -200.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_demonstrations_lead_up_the_mountain_where_sac_alone_stays_below(learn, tmp_path, monkeypatch, seed):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    example = Path("examples/mountaincar_sacfd.toml")
    record = f"rollout {example} --policy push-along --episodes 20 --record-to runs/mountain-car-expert"
    command = [sys.executable, "-c", "from maze_kernel.cli import main; main()", *record.split()]
    subprocess.run(command, check=True, capture_output=True)
    common = [f"seed={seed}", 'loggers=[{use="csv"}]']
    loaded = load_experiment(example, overrides=common)
    shown = train(loaded, loaded.kernel, run_dir=tmp_path / "shown", verbosity=-1)
    assert shown.env_steps <= 12_000
    assert shown.best_metric >= 85.0
    tables = tomli.loads(example.read_text())
    trainer = {name: value for name, value in tables["trainer"].items() if "demonstration" not in name}
    kept = {name: tables[name] for name in ("env", "vector", "model", "evaluation")}
    assert learn(**kept, trainer=trainer, seed=seed).best_metric < 10.0
