"""Evaluation plays the same episodes in this process and on any pool, with whatever weights the trainer has by then."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from maze_kernel.errors import MazeWarning
from maze_runtime.models.flat_state import pack_state, unpack_state
from maze_runtime.run.pools import make_pool
from maze_runtime.training.evaluation import Evaluator
from maze_testing.vectors import Wanderer

POOLS = ["inline", "maze_testing.by_value_pool:ByValuePool"]
NORMALISED = {"use": "observation-normalization", "n_estimation_steps": 50}


@pytest.fixture(autouse=True)
def importable_by_workers(monkeypatch):
    """Workers look for modules where their caller does, and the environments of these tests stand in this one."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))


@pytest.fixture
def default_tables():
    return {"trainer": {"use": "ppo"}, "vector": {"n_envs": 2}}


def _network():
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5))
    network.register_buffer("allowed", torch.tensor([True, False, True]))
    network.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))
    return network


def test_a_state_comes_back_as_it_was():
    source, target = _network(), _network()
    source(torch.randn(7, 3))  # moves the statistics, and counts a batch
    source.allowed[1] = True
    flat = pack_state(source)
    unpack_state(target, flat)
    flat[:] = 0
    for name, tensor in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], tensor), name
        assert target.state_dict()[name].dtype == tensor.dtype


def test_a_state_of_another_size_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        unpack_state(torch.nn.Linear(2, 2), pack_state(torch.nn.Linear(2, 3)))


def _rewards(assembly, pool, models):
    evaluator = Evaluator(assembly, pool)
    rewards = [[result.total_reward for result in evaluator.play(model)] for model in models]
    evaluator.close()
    return rewards


def _models(assembly):
    """As it begins, and after a step of learning."""
    model = assembly.make_model()
    yield model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5)
    yield model


@pytest.mark.parametrize("use", POOLS)
def test_the_same_episodes_come_out_on_a_pool(assemble, use):
    env = {"use": "maze_testing.vectors:Wanderer"}
    table = {"use": use, "count": 3}
    assembly = assemble(env=env, wrappers=[NORMALISED], workers=table, evaluation={"n_episodes": 7})
    assembly.trainer_context()
    assembly.estimate_transforms()
    expected = _rewards(assembly, None, _models(assembly))
    assert expected[0] != expected[1]
    with make_pool(assembly.experiment.workers) as pool:
        played = _rewards(assembly, pool, _models(assembly))
    np.testing.assert_allclose(played, expected, rtol=1e-5)  # products of other numbers of rows round otherwise


class Dying(Wanderer):
    """Ends its process in its third step, the first time that anybody does."""

    def __init__(self, *, path: str, home: int):
        super().__init__()
        self._path, self._home, self._n_steps = Path(path), home, 0

    def step(self, action):
        self._n_steps += 1
        if self._n_steps == 3 and os.getpid() != self._home and not self._path.exists():
            self._path.touch()
            os._exit(3)
        return super().step(action)


@pytest.mark.slow
def test_a_worker_that_dies_is_asked_again(assemble, tmp_path):
    env = {"use": f"{__name__}:Dying", "path": str(tmp_path / "dead"), "home": os.getpid()}
    workers = {"use": "subprocess", "count": 2, "max_restarts": 1, "backoff_seconds": 0.05}
    assembly = assemble(env=env, workers=workers, evaluation={"n_episodes": 5})
    model = assembly.make_model()
    expected = _rewards(assembly, None, [model])
    says = pytest.warns(MazeWarning, match="exited with code 3 during 'play'; its replacement begins that again")
    with make_pool(assembly.experiment.workers) as pool, says:
        assert _rewards(assembly, pool, [model]) == expected
    assert (tmp_path / "dead").exists()
    assert np.isfinite(expected).all()
