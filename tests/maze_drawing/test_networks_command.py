"""`maze networks` draws what an experiment would train, and what a run trains."""

import json

EXPERIMENT = """
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[model]
use = "auto"
hidden_units = [5]
[trainer]
use = "ppo"
max_env_steps = 200
"""


def units(drawn):
    return [block["n_parameters"] for block in json.loads(drawn)[0]["blocks"]]


def test_an_experiment_and_a_run_with_other_settings_are_drawn(maze, tmp_path):
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    assert units(maze("networks", "small.toml", "--json").stdout) == [4 * 5 + 5, 5 * 2 + 2]
    assert maze("train", "small.toml", "--out", "run", "--set", "model.hidden_units=[3]").exit_code == 0
    assert units(maze("networks", "run", "--json").stdout) == [4 * 3 + 3, 3 * 2 + 2]


def test_any_other_folder_is_refused(maze, tmp_path):
    (tmp_path / "empty").mkdir()
    done = maze("networks", "empty")
    assert done.exit_code != 0
    assert "empty is no run directory" in done.output
