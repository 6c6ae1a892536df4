"""`maze rollout --json` prints JSON that every parser reads, and what ended episodes is told once."""

import json

import numpy as np
import pytest

from maze_kernel.errors import EnvError
from maze_runtime.commands.rollout_report import print_failures, print_result
from maze_runtime.env.tracebacks import ALONE
from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult
from maze_runtime.rollout.episodes import EpisodeResult


def test_what_is_no_finite_number_is_null(capsys):
    events = {"kpi/mean": float("nan"), "kpi/max": np.float64(np.inf), "kept": np.array([1.0, np.nan])}
    summary = {"n_episodes": 0, "n_failed": 0, "reward": None, "length": None}
    result = RolloutResult(episodes=(), summary=summary, events=events, profile={})
    print_result(result, "random", RolloutOptions(seed=1), as_json=True)

    def refuse(name):
        raise AssertionError(name)

    told = json.loads(capsys.readouterr().out, parse_constant=refuse)["events"]
    assert told == {"kpi/mean": None, "kpi/max": None, "kept": [1.0, None]}


def failed_at(seed, error):
    return EpisodeResult(
        seed=seed,
        total_reward=np.nan,
        length=0,
        terminated=False,
        truncated=False,
        error=error.what,
        cause=error,
    )


@pytest.mark.parametrize(
    ("of_environment", "told"),
    [
        (True, "help: see the environment alone with that seed: maze check {file} --steps 1000 --seed 3"),
        (False, "failed: episode with seed 4: it broke"),
    ],
)
def test_an_error_of_many_episodes_says_once_what_was_expected(capsys, tmp_path, of_environment, told):
    file = tmp_path / "lift.toml"
    file.touch()
    episodes = []
    for seed in (3, 4):
        error = EnvError("it broke", expected="1", owner=f"seed {seed}", help=ALONE if of_environment else "mend it")
        error.seed = seed if of_environment else None
        episodes.append(failed_at(seed, error))
    print_failures(RolloutResult(episodes=episodes, summary={}), str(file))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["failed: episode with seed 3: it broke", "  = expected: 1", "  = owner: seed 3"]
    assert lines[3:-1] == (["failed: episode with seed 4: it broke"] if of_environment else ["  help: mend it"])
    assert lines[-1] == told.format(file=file)
