"""Trainers on the cluster: the numbers of the subprocess pool, and going on when a node dies in a rollout."""

import contextlib
import threading
import warnings

import psutil
import pytest
import torch

from maze_ray.pool import RayPool

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


@pytest.fixture
def groups(monkeypatch):
    """The groups of actors that are spawned."""
    found = []
    spawn = RayPool.spawn

    def record(pool, *arguments, **how):
        found.append(spawn(pool, *arguments, **how))
        return found[-1]

    monkeypatch.setattr(RayPool, "spawn", record)
    return found


@pytest.fixture
def end_node(cluster, groups):
    """Kills a node, not the head, on which an actor of the newest group runs; another one takes its place later."""
    nodes = []

    def end():
        homes = {actor._node[1] for actor in groups[-1]._actors}
        node = next(
            node for node in cluster.list_all_nodes() if node.node_id in homes and node is not cluster.head_node
        )
        nodes.append(node)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for process in [raylet, *raylet.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    cluster.add_node(num_cpus=2, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    yield end
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)


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
