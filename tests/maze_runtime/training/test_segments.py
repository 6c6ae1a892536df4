"""Checkpoints between which no episode of training ends are spoken of, once."""

import pytest

from maze_runtime.training.metric import EPISODE_COUNT
from maze_runtime.training.segments import SegmentWatch
from maze_suite import RunContext


@pytest.fixture
def said():
    return []


def test_a_segment_in_which_no_episode_ended_is_spoken_of_once(said):
    watch = SegmentWatch(said.append)
    for first in (0, 400):
        watch.begin(first)
        watch.see({EPISODE_COUNT: 0})
        watch.see({EPISODE_COUNT: 0})
        watch.end(first + 400)
    (line,) = said
    assert "400 steps" in line
    assert "checkpoint.every_epochs" in line


@pytest.mark.parametrize("counts", [[1, 0], [0, 2]])
def test_one_episode_is_enough(counts, said):
    watch = SegmentWatch(said.append)
    watch.begin(0)
    for count in counts:
        watch.see({EPISODE_COUNT: count})
    watch.end(400)
    assert not said


def test_trainers_that_count_no_episodes_say_nothing(said):
    watch = SegmentWatch(said.append)
    watch.begin(0)
    watch.see({"loss": 1.0})
    watch.end(400)
    assert not said


@pytest.mark.parametrize(("every_epochs", "expected"), [(1, 1), (4, 0)])
def test_a_run_of_long_episodes_says_it_where_checkpoints_are_close(every_epochs, expected, tmp_path, capsys):
    """Pendulum-v1: 200 steps an episode; an epoch of 60."""
    overrides = {
        "vector.n_envs": 1,
        "trainer": {"n_rollout_steps": 20, "epoch_length": 3, "n_epochs": 6, "batch_size": 20},
        "checkpoint.every_epochs": every_epochs,
        "evaluation.n_episodes": 0,
    }
    RunContext(env="Pendulum-v1", trainer="ppo", overrides=overrides, run_dir=tmp_path / "run").train()
    assert capsys.readouterr().err.count("no episode of training ended") == expected
