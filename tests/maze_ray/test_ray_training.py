"""Trainers on the cluster: the numbers of the subprocess pool, and going on when a node dies in a rollout."""

import re
import threading
import time
import warnings

import pytest
import torch

from maze_gym.env import make_env
from maze_gym.options import GymOptions
from maze_kernel.config import experiment_from_mapping
from maze_runtime.training.training_run import TrainingRun

CARTPOLE = {"env": {"use": "gym", "id": "CartPole-v1"}, "evaluation": {"n_episodes": 0}}
ES = {**CARTPOLE, "trainer": {"use": "es", "n_rollouts_per_update": 6, "noise": {"use": "seeded"}}}
ES_TABLE = {**ES, "trainer": {**ES["trainer"], "noise": {"use": "table", "size": 100_000}}}
PPO = {
    **CARTPOLE,
    "trainer": {"use": "ppo", "epoch_length": 2, "n_rollout_steps": 16},
    "vector": {"n_envs": 5, "mode": "workers"},
}
IMPALA = {
    **CARTPOLE,
    "trainer": {"use": "impala", "epoch_length": 3, "num_actors": 4, "n_rollout_steps": 8, "actors_batch_size": 4},
}
DETERMINISTIC = {**IMPALA, "trainer": {**IMPALA["trainer"], "deterministic": True}}
N_EPOCHS_AT_MOST = 2000


@pytest.fixture
def default_tables():
    return CARTPOLE


def weights_after(assemble, n_epochs, **tables):
    assembly = assemble(**tables)
    trainer = assembly.make_trainer(assembly.trainer_context())
    try:
        trainer.start_segment(0)
        for _ in range(n_epochs):
            trainer.train_epoch()
    finally:
        trainer.close()
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(PPO, id="ppo"),
        pytest.param(ES, id="es", marks=pytest.mark.slow),
        pytest.param(ES_TABLE, id="es-table", marks=pytest.mark.slow),
        pytest.param(DETERMINISTIC, id="impala", marks=pytest.mark.slow),
    ],
)
def test_the_same_is_learnt_as_in_subprocesses(assemble, on_ray, tables):
    expected = weights_after(assemble, 2, **tables, workers={"use": "subprocess", "count": 2})
    assert torch.equal(weights_after(assemble, 2, **tables, workers=on_ray(count=2)), expected)


LONG_PPO = {
    **PPO,
    "trainer": {**PPO["trainer"], "epoch_length": 1, "n_rollout_steps": 1000, "n_optimization_epochs": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("tables", [ES, LONG_PPO, IMPALA], ids=["es", "ppo", "impala"])
def test_training_goes_on_when_a_node_dies_in_the_middle_of_a_rollout(assemble, on_ray, groups, end_node, tables):
    workers = on_ray(count=3, cpus_per_worker=0.5, max_restarts=2, backoff_seconds=0.1)
    assembly = assemble(**tables, workers=workers)
    trainer = assembly.make_trainer(assembly.trainer_context())
    try:
        trainer.start_segment(0)
        trainer.train_epoch()
        killer = threading.Timer(0.3, end_node)
        killer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(N_EPOCHS_AT_MOST):
                trainer.train_epoch()
                if sum(groups[-1].restarts(index) for index in range(3)):
                    break
        killer.join()
        assert sum(groups[-1].restarts(index) for index in range(3)) > 0
        for _ in range(3):
            trainer.train_epoch()
    finally:
        trainer.close()


@pytest.mark.slow
def test_es_learns_the_same_when_a_node_dies(assemble, on_ray, groups, end_node):
    expected = weights_after(assemble, 3, **ES, workers={"use": "subprocess", "count": 3})
    workers = on_ray(count=3, cpus_per_worker=0.5, max_restarts=2, backoff_seconds=0.1)
    assembly = assemble(**ES, workers=workers)
    trainer = assembly.make_trainer(assembly.trainer_context())
    try:
        trainer.start_segment(0)
        trainer.train_epoch()
        end_node()
        trainer.train_epoch()
        trainer.train_epoch()
        assert sum(groups[-1].restarts(index) for index in range(3)) > 0
    finally:
        trainer.close()
    found = torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])
    assert torch.equal(found, expected)


def that_prints():
    """An environment; nodes cannot import this module, so it travels."""
    print("a line of an environment")
    return make_env(GymOptions(id="CartPole-v1"))


SECONDS_TO_HEAR = 60.0


@pytest.mark.slow
def test_what_workers_print_and_the_cluster_says_is_in_the_log_of_the_run(kernel, on_ray, end_node, tmp_path, capfd):
    workers = on_ray(count=3, cpus_per_worker=0.5, max_restarts=2, backoff_seconds=0.1)
    tables = {**LONG_PPO, "name": "heard", "env": that_prints, "workers": workers}
    loaded = experiment_from_mapping(tables, kernel=kernel)
    log = tmp_path / "run" / "log.txt"
    with TrainingRun(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run.advance()
        end_node()
        deadline = time.monotonic() + SECONDS_TO_HEAR
        while " raylet: " not in log.read_text() and time.monotonic() < deadline:
            run.advance()
        run.stop("interrupted", "all was heard")
    lines = [line.partition(" ")[2] for line in log.read_text().splitlines()]
    # Ray brings the first of equal lines at once, whoever prints it, and counts the others.
    assert any(re.fullmatch(r"\[actor \d, process \d+ on [\d.]+\] a line of an environment", line) for line in lines)
    said = [line for line in lines if line.startswith("raylet: ")]
    assert said
    assert len(said) == len(set(said))
    shown = "".join(capfd.readouterr())
    assert "raylet" not in shown
    assert "a line of an environment" in shown
