"""`maze rollout --json` prints JSON that every parser reads."""

import json

import numpy as np

from maze_runtime.commands.rollout_report import print_result
from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult


def test_what_is_no_finite_number_is_null(capsys):
    events = {"kpi/mean": float("nan"), "kpi/max": np.float64(np.inf), "kept": np.array([1.0, np.nan])}
    summary = {"n_episodes": 0, "n_failed": 0, "reward": None, "length": None}
    result = RolloutResult(episodes=(), summary=summary, events=events, profile={})
    print_result(result, "random", RolloutOptions(seed=1), as_json=True)

    def refuse(name):
        raise AssertionError(name)

    told = json.loads(capsys.readouterr().out, parse_constant=refuse)["events"]
    assert told == {"kpi/mean": None, "kpi/max": None, "kept": [1.0, None]}
