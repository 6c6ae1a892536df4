"""What a rollout tells beside rewards: event statistics, KPIs, the events themselves, and where the time went."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_cutting2d.conversions import CuttingHeads, InventoryObservation
from maze_cutting2d.core_env import CuttingCoreEnv
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.rewards import DefaultReward
from maze_kernel.cli.app import make_app
from maze_runtime.context import RunContext
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.events import episode

CUTTING = {"use": "cutting-2d", "max_episode_steps": 12}
FILE = """
name = "cut"
env = { use = "cutting-2d", max_episode_steps = 12 }
trainer = { use = "ppo" }
wrappers = [{ use = "monitoring" }]
"""


@pytest.fixture
def result(tmp_path):
    context = RunContext(env=CUTTING, wrappers=["sorted-spaces", "log-stats"], silent=True)
    return context.rollout(5, policy="random", events_dir=tmp_path / "events", profile=True, seed=3)


def test_event_statistics_are_those_of_the_events(result, tmp_path):
    files = {path.name: list(csv.DictReader(path.open())) for path in (tmp_path / "events").iterdir()}
    invalid = files["CuttingEvents.invalid_piece_selected.csv"]
    replenished = files["InventoryEvents.piece_replenished.csv"]
    assert result.events["CuttingEvents/invalid_piece_selected/mean_episode_total"] == len(invalid) / 5
    assert result.events["BaseEnvEvents/kpi/mean/raw_piece_usage_per_step"] == pytest.approx(len(replenished) / 60)
    assert result.events["LogStatsEvents/reward/mean"] == pytest.approx(result.summary["reward"]["mean"])
    kpis = [float(row["value"]) for row in files["BaseEnvEvents.kpi.csv"]]
    assert result.events["BaseEnvEvents/kpi/max/raw_piece_usage_per_step"] == pytest.approx(max(kpis))
    first = files["InventoryEvents.pieces_in_inventory.csv"][0]
    assert first.keys() == {"episode", "seed", "step", "value"}
    assert (first["episode"], first["step"], int(first["seed"])) == ("0", "0", result.episodes[0].seed)


def test_the_profile_names_every_part_and_adds_up(result):
    assert result.profile.keys() >= {
        "core env",
        "observation conversion",
        "action conversion",
        "reward aggregator",
        "sorted-spaces",
        "log-stats",
        "policy",
    }
    assert sum(result.profile.values()) == pytest.approx(1)
    assert list(result.profile.values()) == sorted(result.profile.values(), reverse=True)


def test_the_command_prints_tables_and_json_and_writes_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cut.toml").write_text(FILE)
    shown = CliRunner().invoke(make_app(), ["rollout", "cut.toml", "--episodes", "2", "--events", "--profile"])
    assert shown.exit_code == 0, shown.output
    for words in ("event statistic", "BaseEnvEvents/kpi/mean/raw_piece_usage_per_step", "time spent in", "core env"):
        assert words in shown.output
    assert len(list(Path("events/cut").glob("*/*.csv"))) >= 3
    told = CliRunner().invoke(make_app(), ["rollout", "cut.toml", "--episodes", "2", "--json"])
    data = json.loads(told.stdout)
    assert data["events"]["InventoryEvents/pieces_in_inventory/step_max"] >= 1
    assert sum(data["events"]["ActionEvents/discrete_action/0/cut_rotation"]) == 24
    assert {"seed", "reward", "length", "terminated", "truncated", "error"} == data["episodes"][0].keys()


def play(n_steps, **options):
    cutting = CuttingOptions(max_episode_steps=n_steps)
    parts = CuttingCoreEnv(cutting), InventoryObservation(cutting), CuttingHeads(cutting)
    env = MazeEnv(*parts, reward_aggregator=DefaultReward(), **options)
    total = 0.0
    env.reset(seed=1)
    for step in range(n_steps):
        total += env.step({"piece_idx": step % 3, "cut_rotation": step % 2, "cut_order": 0})[1]
    env.reset()
    return env, total


def test_without_event_statistics_rewards_stay():
    (_, with_statistics), (env, without) = play(30), play(30, event_statistics=False)
    assert without == with_statistics < 0
    assert [list(statistics) for statistics in env.drain_statistics()] == [[]]


def test_long_episodes_are_aggregated_in_parts_with_the_same_result(monkeypatch):
    def statistics():
        monkeypatch.setattr(CuttingCoreEnv, "get_kpi_calculator", lambda _self: None)
        (done,) = play(60)[0].drain_statistics()
        return {(one.interface, one.event.__name__): one.values for one in done}

    whole = statistics()
    monkeypatch.setattr(episode, "MOST_RECORDS", 7)
    assert statistics() == whole
