"""The pool of processes without shared memory: the suite of pools, and everything in Maze that has work for one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from maze_acme.options import PipesOptions
from maze_acme.pipe_pool import PipePool
from maze_kernel.contracts.workers import ArraySpec, GroupOptions, RestartPolicy
from maze_kernel.errors import RequestError, WorkerError
from maze_testing.worker_actors import Probe
from maze_testing.workers import WorkerPoolSuite

POOL = {"workers.use": "acme-pipes", "workers.count": 2}


def test_an_actor_is_replaced_and_gets_its_weights_again():
    with PipePool(PipesOptions(count=1)) as pool:
        group = pool.spawn(Probe, 1, GroupOptions(restart=RestartPolicy(max_restarts=1, backoff_seconds=0.01)))
        group.broadcast(np.ones(2), 4)
        with pytest.raises(WorkerError, match=r"exited with code 7 during 'exit'"):
            group.call(0, "exit").result()
        assert group.call(0, "weights").result() == ([1.0, 1.0], 4)


def test_shared_arrays_are_refused_by_name():
    arrays = {"the table": ArraySpec(shape=(2,), dtype="float32")}
    with pytest.raises(RequestError, match="acme-pipes") as caught:
        PipePool(PipesOptions()).spawn(Probe, 1, GroupOptions(arrays=arrays))
    assert "the table" in str(caught.value)


@pytest.mark.slow
class TestPipePool(WorkerPoolSuite):
    def make_pool(self, count):
        return PipePool(PipesOptions(count=count, grace_seconds=1.0))


KILLED = """
import os, signal, sys
from maze_acme.options import PipesOptions
from maze_acme.pipe_pool import PipePool
from maze_testing.worker_actors import Probe

if __name__ == "__main__":
    group = PipePool(PipesOptions(count=1)).spawn(Probe, 1)
    print(group.process_id(0), flush=True)
    group.call(0, "sleep", 3600.0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_worker_does_not_outlive_its_caller(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "killed.py")]
    done = subprocess.run(command, env=os.environ | path, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    process_id = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"process {process_id} is still there")


def weights(result):
    return {name: tensor.numpy() for name, tensor in result.model.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["es", "impala", "acme-q-learning"])
def test_runs_on_the_pool_learn_what_they_learn_here(context_of, trainer):
    how = {
        "es": {"trainer.n_rollouts_per_update": 4, "trainer.n_epochs": 2},
        "impala": {
            "trainer.n_epochs": 2,
            "trainer.epoch_length": 2,
            "trainer.num_actors": 2,
            "trainer.actors_batch_size": 2,
            "trainer.deterministic": True,
        },
        "acme-q-learning": {"trainer.n_steps": 20, "trainer.n_epochs": 2, "model.use": "acme-q-network"},
    }[trainer]
    here = context_of(trainer, "here", **how, **{"workers.use": "inline", "workers.count": 2}).train()
    there = context_of(trainer, "there", **how, **POOL).train()
    ours, theirs = weights(here), weights(there)
    assert ours
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert here.best_metric == there.best_metric


@pytest.mark.slow
def test_impala_learns_asynchronously(context_of):
    how = {"trainer.n_epochs": 2, "trainer.epoch_length": 3, "trainer.num_actors": 4, "trainer.actors_batch_size": 2}
    assert context_of("impala", **how, **POOL).train().env_steps > 0


@pytest.mark.slow
def test_rollouts_do_not_depend_on_the_pool(context_of):
    how = {"trainer.n_steps": 5, "trainer.n_epochs": 1, "model.use": "acme-q-network"}
    context = context_of("acme-q-learning", **how, **POOL)
    context.train()
    played = [
        [episode.total_reward for episode in context.rollout(n_episodes=5, n_workers=n, deterministic=False).episodes]
        for n in (1, 3)
    ]
    assert played[0] == played[1]
