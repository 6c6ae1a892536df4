"""What else runs on worker pools, on the cluster: the numbers of the inline pool, bit for bit."""

from contextlib import closing

import numpy as np
import pytest
import torch

from maze_kernel.errors import RequestError
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.run.pools import make_pool
from maze_runtime.training.evaluation import Evaluator

INLINE = {"use": "inline", "count": 2}
NORMALISED = {"use": "observation-normalization", "n_estimation_steps": 60}
A2C = {"trainer": {"use": "a2c", "epoch_length": 2, "n_rollout_steps": 8}}
SAC = {
    "trainer": {"use": "sac", "epoch_length": 3, "n_rollout_steps": 4, "initial_buffer_size": 60, "batch_size": 16},
    "model": {"use": "auto", "hidden_units": [8]},
}


@pytest.fixture
def default_tables():
    return {
        "env": {"use": "maze_testing.vectors:Wanderer"},
        "vector": {"n_envs": 5, "mode": "workers"},
        "trainer": {"use": "ppo"},
        "wrappers": [NORMALISED],
        "evaluation": {"n_episodes": 5},
    }


@pytest.fixture
def both(assemble, on_ray):
    """`both(**tables)` -> Assembly on the inline pool, and on the cluster."""
    return lambda **tables: [assemble(**tables, workers=workers) for workers in (INLINE, on_ray(count=2))]


def weights_after_training(assembly):
    trainer = assembly.make_trainer(assembly.trainer_context())
    with closing(trainer):
        assembly.estimate_transforms()
        for epoch in range(2):
            trainer.start_segment(epoch)
            trainer.train_epoch()
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("tables", [A2C, SAC], ids=["a2c", "sac"])
def test_training(both, tables):
    expected, learnt = map(weights_after_training, both(**tables))
    assert torch.isfinite(learnt).all()
    assert torch.equal(learnt, expected)


def test_estimates(both):
    expected, estimated = (assembly.estimated_states() for assembly in both())
    for part in ("mean", "count"):
        for name, own in expected[0]["estimated"].items():
            np.testing.assert_array_equal(estimated[0]["estimated"][name][part], own[part])


def test_evaluation(both):
    def play(assembly, workers):
        assembly.estimated_states()
        with closing(Evaluator(assembly, workers)) as evaluator:
            return evaluator(assembly.make_model())

    inline, on_cluster = both()
    expected = play(inline, None)
    with make_pool(on_cluster.experiment.workers) as workers:
        assert play(on_cluster, workers) == pytest.approx(expected, rel=1e-5)  # other numbers of rows round otherwise


def test_rollouts(both, kernel):
    def play(assembly):
        episodes = roll_out(assembly.loaded, kernel, RolloutOptions(n_episodes=5)).episodes
        assert [episode.error for episode in episodes] == [None] * 5
        return [(episode.seed, episode.total_reward, episode.length) for episode in episodes]

    expected, played = map(play, both())
    assert played == expected


@pytest.fixture
def recording(both, kernel, tmp_path):
    options = RolloutOptions(n_episodes=4, record_dir=tmp_path / "recording", n_workers=1)
    roll_out(both()[0].loaded, kernel, options)
    return tmp_path / "recording"


@pytest.mark.slow
def test_readers_of_demonstrations(both, recording):
    demonstrations = {"use": "trajectories", "path": str(recording)}
    expected, learnt = map(
        weights_after_training, both(trainer={"use": "bc", "demonstrations": demonstrations, "batch_size": 4})
    )
    assert torch.equal(learnt, expected)


def test_what_writes_files_needs_files_in_common(assemble, kernel, on_ray, tmp_path):
    assembly = assemble(workers=on_ray(count=2, shared_files=False))
    with pytest.raises(RequestError, match="file"):
        roll_out(assembly.loaded, kernel, RolloutOptions(n_episodes=2, record_dir=tmp_path / "recording", n_workers=2))
    assert not (tmp_path / "recording").exists()
