"""`--max-seconds` ends the running epoch at its next update, whoever trains, and what was learnt is kept."""

import pytest

from maze_kernel.config.load import experiment_from_mapping
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.loop import Loop
from maze_runtime.training.train import train

LIMIT = 3
ROLLOUTS = {"n_rollout_steps": 8, "epoch_length": 400}
REPLAY = {**ROLLOUTS, "initial_buffer_size": 16, "batch_size": 8}
TRAINERS = {
    "ppo": {**ROLLOUTS, "n_optimization_epochs": 1, "batch_size": 16},
    "a2c": ROLLOUTS,
    "impala": {**ROLLOUTS, "num_actors": 2, "actors_batch_size": 2},
    "sac": REPLAY,
    "dqn": REPLAY,
    "td3": REPLAY,
}


class Clock:
    """A logger that lets a second pass at each sign of life."""

    def __init__(self):
        self.seconds = 0

    def write(self, record):
        pass

    def progress(self, progress):
        self.seconds += progress.fraction > 0 and progress.phase != "evaluate"


@pytest.mark.parametrize("use", TRAINERS)
def test_an_epoch_ends_when_the_time_is_used_up(kernel, tmp_path, monkeypatch, use):
    clock = Clock()
    monkeypatch.setattr(Loop, "_seconds", lambda _self: clock.seconds)
    data = {
        "name": "limited",
        "env": {"use": "gym", "id": "Pendulum-v1"} if use == "td3" else {"use": "maze_testing.environments:Identity"},
        "trainer": {"use": use, "n_epochs": 5, **TRAINERS[use]},
        "vector": {"n_envs": 2},
        "evaluation": {"n_episodes": 1},
        "loggers": [{"use": "csv"}],
    }
    loaded = experiment_from_mapping(data, kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1, max_seconds=LIMIT, extra_loggers=[clock])
    assert (result.outcome.status, result.outcome.reason) == ("done", "3 seconds used")
    assert result.epochs == result.outcome.best_epoch == 1
    assert CheckpointStore(result.run_dir).pointed("last") == 1
    assert 0 < result.env_steps < 2 * 8 * 400
