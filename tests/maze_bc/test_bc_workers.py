"""Demonstrations that are read on the worker pool are those read here, whatever happens to a worker."""

import os
import signal
from contextlib import closing

import numpy as np
import psutil
import pytest
import torch

from maze_bc import trainer as trainer_module
from maze_bc.sources import open_demonstrations
from maze_kernel.errors import RequestError, TrajectoryError, WorkerError
from maze_runtime.datasets.pooled_source import PooledSource

WORKERS = {"use": "subprocess", "count": 2, "preload": ["maze_bc.sources"], "backoff_seconds": 0.1}


def opened(assembly):
    return open_demonstrations(assembly.experiment.trainer.options.demonstrations, assembly.trainer_context())


def read_all(assembly):
    with closing(opened(assembly)) as demonstrations:
        return [demonstrations.read(index) for index in range(len(demonstrations.lengths))]


def assert_same(theirs, ours):
    assert theirs.keys() == ours.keys()
    for key, decisions in ours.items():
        for name, array in (*decisions.observation.items(), *decisions.action.items()):
            where = "observation" if name in decisions.observation else "action"
            np.testing.assert_array_equal(getattr(theirs[key], where)[name], array)
        np.testing.assert_array_equal(theirs[key].agent_id, decisions.agent_id)
        np.testing.assert_array_equal(theirs[key].place, decisions.place)


@pytest.fixture
def pooled(request):
    """Opens demonstrations and closes them."""

    def make(assembly):
        demonstrations = opened(assembly)
        request.addfinalizer(demonstrations.close)
        assert isinstance(demonstrations, PooledSource)
        return demonstrations

    return make


def test_arrays_read_on_workers_are_those_read_here(identity_recording, assemble, pooled):
    folder = identity_recording()
    here, there = opened(assemble(folder)), pooled(assemble(folder, workers=WORKERS))
    assert there.spaces == here.spaces
    assert list(there.lengths) == list(here.lengths)
    there.expect([3, 1, 4])
    for index in (1, 3, 4, 0, 1):
        assert_same(there.read(index), here.read(index))


def test_maze_states_are_converted_on_workers(cutting, pooled):
    here, there = opened(cutting("structured", "masked")), pooled(cutting("structured", "masked", workers=WORKERS))
    assert there.spaces == here.spaces
    there.expect(range(3))
    for index in range(3):
        assert_same(there.read(index), here.read(index))


@pytest.mark.parametrize("memory_rows", [1000, 50])
def test_training_with_workers_gives_the_same_weights(identity_recording, make_trainer, monkeypatch, memory_rows):
    monkeypatch.setattr(trainer_module, "row_bytes", lambda _spaces: 1 << 20)  # a decision of one MiB
    folder, options = identity_recording(n_episodes=8), {"batch_size": 20, "memory_limit_mib": memory_rows}
    alone, helped = make_trainer(folder, trainer=options), make_trainer(folder, trainer=options, workers=WORKERS)
    assert helped._minibatches.is_streamed == (memory_rows == 50)
    for _ in range(3):
        alone.train_epoch()
        helped.train_epoch()
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(tensor, helped.model.state_dict()[name]), name
    helped.close()


def test_the_replacement_of_a_worker_reads_what_it_was_to_read(identity_recording, assemble, pooled):
    folder = identity_recording(n_episodes=8)
    here, there = opened(assemble(folder)), pooled(assemble(folder, workers={**WORKERS, "max_restarts": 1}))
    os.kill(there._group.process_id(0), signal.SIGKILL)
    there.expect(range(8))
    for index in range(8):
        assert_same(there.read(index), here.read(index))
    assert there._group.restarts(0) == 1


def test_without_a_replacement_it_ends_with_the_cause(identity_recording, assemble, pooled):
    demonstrations = pooled(assemble(identity_recording(), workers=WORKERS))
    os.kill(demonstrations._group.process_id(0), signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"SIGKILL|signal 9|killed"):
        [demonstrations.read(index) for index in range(4)]


@pytest.mark.slow
def test_what_is_wrong_with_the_data_is_said_as_without_workers(identity_recording, assemble, tmp_path):
    with pytest.raises(RequestError, match="no recording"):
        opened(assemble(tmp_path / "nowhere", workers=WORKERS))
    folder = identity_recording()
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix not in (".json", ".toml"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    errors = []
    for workers in ({}, {"workers": WORKERS}):
        with pytest.raises(TrajectoryError) as caught:
            read_all(assemble(folder, **workers))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_closing_a_trainer_stops_its_workers(identity_recording, make_trainer):
    trainer = make_trainer(identity_recording(), workers=WORKERS)
    trainer.train_epoch()
    group = trainer._demonstrations._group
    processes = [psutil.Process(group.process_id(index)) for index in range(2)]
    trainer.close()
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive
