"""`max_env_steps` and `--max-seconds` end the running epoch at its next update, and what was learnt is kept."""

import csv
import shutil

import pytest

from maze_es.options import AdamOptions, ESOptions
from maze_kernel.config.load import experiment_from_mapping
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.loop import Loop
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.schedules import Schedule, moving_schedules
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


@pytest.fixture
def trained(kernel, tmp_path):
    """What a run of a trainer that is called so came to; an epoch has 6 400 steps."""

    def run(use, trainer, **limits):
        env = {"use": "gym", "id": "Pendulum-v1"} if use == "td3" else {"use": "maze_testing.environments:Identity"}
        data = {
            "name": "limited",
            "env": env,
            "trainer": {"use": use, "n_epochs": 5, **TRAINERS[use], **trainer},
            "vector": {"n_envs": 2},
            "evaluation": {"n_episodes": 1},
            "loggers": [{"use": "csv"}],
        }
        return train(
            experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / "run", verbosity=-1, **limits
        )

    return run


def _ended_in_its_first_epoch(result, reason):
    assert (result.outcome.status, result.outcome.reason) == ("done", reason)
    assert result.epochs == result.outcome.best_epoch == 1
    assert CheckpointStore(result.run_dir).pointed("last") == 1


@pytest.mark.parametrize("use", TRAINERS)
def test_an_epoch_ends_when_the_time_is_used_up(trained, monkeypatch, use):
    clock = Clock()
    monkeypatch.setattr(Loop, "_seconds", lambda _self: clock.seconds)
    result = trained(use, {}, max_seconds=LIMIT, extra_loggers=[clock])
    _ended_in_its_first_epoch(result, "3 seconds used")
    assert 0 < result.env_steps < 2 * 8 * 400


@pytest.mark.parametrize("use", TRAINERS)
def test_an_epoch_ends_with_the_update_that_uses_up_the_steps(trained, use):
    result = trained(use, {"max_env_steps": 100})
    _ended_in_its_first_epoch(result, "112 environment steps done")


@pytest.mark.parametrize("use", TRAINERS)
def test_the_rate_of_an_update_is_that_of_the_moment_in_which_it_began(trained, use):
    """As with a budget of epochs: the first one has the start of the schedule, and none has its end."""
    moving = {"lr": {"start": 1e-3, "end": 0.0}, "epoch_length": 1, "n_epochs": 0, "max_env_steps": 80}
    result = trained(use, moving)
    rows = csv.DictReader((result.run_dir / "statistics" / "train.csv").read_text().splitlines())
    rates, ends = zip(
        *((float(row["value"]), int(row["env_steps"])) for row in rows if row["tag"].endswith("/learning_rate")),
        strict=True,
    )
    n_filled = REPLAY["initial_buffer_size"] if "initial_buffer_size" in TRAINERS[use] else 0
    assert rates == pytest.approx([1e-3 * (1 - before / 80) for before in (n_filled, *ends[:-1])])
    assert len(rates) == (80 - n_filled) / 16


def test_a_run_that_is_given_more_steps_goes_on(trained, kernel):
    first = trained("td3", {"max_env_steps": 100})
    loaded = stored_experiment(first.run_dir, kernel=kernel, overrides=["trainer.max_env_steps=150"])
    second = train(loaded, kernel, resume=first.run_dir, verbosity=-1)
    assert (first.env_steps, second.env_steps, second.epochs) == (112, 160, 2)


def test_schedules_that_nothing_ends_are_warned_of_with_the_value_that_they_keep(trained, tmp_path, monkeypatch):
    def warning():
        log = (tmp_path / "run" / "log.txt").read_text()
        shutil.rmtree(tmp_path / "run")
        return "".join(line for line in log.splitlines() if "schedules run over" in line)

    clock = Clock()
    monkeypatch.setattr(Loop, "_seconds", lambda _self: clock.seconds)
    moving = {"lr": {"start": 1e-3, "end": 0.0}, "epoch_length": 20, "max_env_steps": 0}
    trained("dqn", {**moving, "n_epochs": 0}, max_seconds=LIMIT, extra_loggers=[clock])
    assert "epsilon stays 1" in (line := warning())
    assert "lr stays 0.001" in line
    assert line.endswith("set trainer.n_epochs or trainer.max_env_steps, or give a number")
    trained("dqn", {**moving, "n_epochs": 1})
    assert not warning()
    trained("dqn", {**moving, "n_epochs": 0, "max_env_steps": 50})
    assert not warning()
    clock.seconds = 0
    trained("ppo", {"n_epochs": 0, "max_env_steps": 0, "epoch_length": 2}, max_seconds=LIMIT, extra_loggers=[clock])
    assert not warning()


def test_schedules_in_tables_of_options_are_found():
    falling, level = Schedule(start=0.1, end=0.05), Schedule(start=0.1, end=0.1)
    assert moving_schedules(ESOptions(noise_stddev=level, optimizer=AdamOptions(step_size=falling))) == {
        "optimizer.step_size": falling
    }
    assert moving_schedules(ESOptions()) == {}
