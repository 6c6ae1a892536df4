"""Event statistics and KPIs reach the loggers of a training run, from whatever processes."""

import csv
import tomllib
from pathlib import Path

import pytest

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.training.train import train

EXAMPLE = Path(__file__).parents[2] / "examples/cutting2d_flat.toml"


def run(tmp_path, name, **tables):
    data = tomllib.loads(EXAMPLE.read_text())
    data["env"] |= {"max_episode_steps": 20, "max_pieces_in_inventory": 12}
    data["vector"] = {"n_envs": 2, **tables.pop("vector", {})}
    data["trainer"] |= {"n_epochs": 2, "epoch_length": 2, "n_rollout_steps": 30, "batch_size": 60}
    data["wrappers"] = []  # rewards as the environment gives them
    data["loggers"], data["evaluation"] = [{"use": "csv"}], {"n_episodes": 4}
    kernel = Kernel.installed()
    loaded = experiment_from_mapping({**data, **tables}, kernel=kernel)
    run_dir = tmp_path / name
    train(loaded, kernel, run_dir=run_dir)
    return _epochs(run_dir)


def _epochs(run_dir):
    """(epoch, "train" or "eval", tag) to value, without timings."""
    values = {}
    for part in ("train", "eval"):
        with (run_dir / "statistics" / f"{part}.csv").open() as lines:
            for row in csv.DictReader(lines):
                if not row["tag"].startswith("Timing"):
                    values[int(row["epoch"]), part, row["tag"]] = float(row["value"])
    return values


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ppo", "a2c"])
def test_statistics_after_a_resume_are_those_of_the_undisturbed_run_line_by_line(tmp_path, trainer):
    data = tomllib.loads(EXAMPLE.with_name("cutting2d_structured.toml").read_text())
    data |= {
        "seed": 3,
        "vector": {"n_envs": 2},
        "trainer": {"use": trainer, "n_epochs": 4, "epoch_length": 2, "n_rollout_steps": 100},
        "evaluation": {"n_episodes": 2},
        "checkpoint": {"every_epochs": 1},
        "loggers": [{"use": "csv"}],
    }
    kernel = Kernel.installed()
    loaded = experiment_from_mapping(data, kernel=kernel)
    shorter = experiment_from_mapping({**data, "trainer": {**data["trainer"], "n_epochs": 2}}, kernel=kernel)
    train(loaded, kernel, run_dir=tmp_path / "whole")
    train(shorter, kernel, run_dir=tmp_path / "part")
    train(loaded, kernel, resume=tmp_path / "part")
    whole, part = (list(_epochs(tmp_path / name).items()) for name in ("whole", "part"))
    assert len({epoch for (epoch, _, tag), _ in whole if tag.startswith("CuttingEvents")}) == 4
    assert part == whole


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs"), "plain")


@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("part", ["train", "eval"])
def test_statistics_of_training_and_evaluation_add_up(plain, epoch, part):
    value = {tag: number for (e, p, tag), number in plain.items() if (e, p) == (epoch, part)}
    assert value["BaseEnvEvents/episode_length/mean"] == 20
    n_raw = value["InventoryEvents/piece_replenished/mean_episode_total"]
    assert value["BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"] == pytest.approx(n_raw / 20)
    events = ("invalid_cut", "invalid_piece_selected", "valid_cut")
    counts = [value[f"CuttingEvents/{event}/mean_episode_total"] for event in events]
    assert sum(counts) == pytest.approx(20)
    # The return and the events are two accounts of the same episodes.
    assert value["BaseEnvEvents/reward/mean"] == pytest.approx(-2 * sum(counts[:2]) - (n_raw - 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "tables",
    [
        # Workers that may be replaced are stepped; others collect by themselves and draw actions of their own.
        {"vector": {"mode": "subprocess", "n_processes": 2, "max_restarts": 1}},
        {"workers": {"use": "subprocess", "count": 2}},
    ],
    ids=["subprocess batch", "evaluation in workers"],
)
def test_processes_change_nothing(plain, tmp_path, tables):
    assert run(tmp_path, "processes", **tables) == plain


def test_a_kpi_can_select_the_best_model(tmp_path):
    tag = "BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"
    values = run(tmp_path, "kpi", evaluation={"n_episodes": 2, "metric": tag})
    assert (1, "eval", tag) in values
