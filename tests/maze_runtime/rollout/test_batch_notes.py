"""A run with more processes than environments says so at its beginning."""

import pytest

from maze_runtime.rollout.batch_notes import notes_of_idle
from maze_suite import RunContext

POOL = {"workers": {"use": "subprocess", "count": 2}}
SAC = {"use": "sac", "epoch_length": 8, "initial_buffer_size": 8, "batch_size": 8, "n_epochs": 1}
PPO = {"use": "ppo", "n_rollout_steps": 8, "epoch_length": 1, "batch_size": 8, "n_epochs": 1}


def test_no_line_where_every_process_has_an_environment():
    assert notes_of_idle(2, 2, "[workers] count") == ()


def test_the_line_says_how_many_are_idle_and_what_to_write():
    (line,) = notes_of_idle(4, 3, "[workers] count")
    assert line.startswith("3 environments for 4 processes ([workers] count): 1 of them will be idle")
    assert line.endswith("[vector] n_envs = 4 or more")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "tables", "expected"),
    [
        (SAC, {"vector": {"mode": "subprocess"}}, "1 environment for 2 processes ([vector] n_processes)"),
        (SAC, {"vector": {"mode": "workers"}, **POOL}, "1 environment for 2 processes ([workers] count)"),
        (SAC, {"vector": {"mode": "workers", "n_envs": 2}, **POOL}, None),
        (SAC, POOL, None),
        (PPO, {"vector": {"mode": "subprocess"}}, None),
    ],
    ids=["subprocess", "workers", "enough", "evaluation-only", "ppo"],
)
def test_a_run_says_it_once(trainer, tables, expected, tmp_path, capsys):
    experiment = {"name": "idle", "env": {"use": "gym", "id": "Pendulum-v1"}, "trainer": trainer, **tables}
    overrides = {"evaluation.n_episodes": 1}
    RunContext(experiment=experiment, overrides=overrides, run_dir=tmp_path / "run").train()
    said = capsys.readouterr().err
    assert said.count("will be idle") == (expected is not None)
    assert (expected or "") in said
