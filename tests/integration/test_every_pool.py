"""Everything that runs on worker pools, on every kind of pool: same numbers, bit for bit.

"inline" and "by value" are in this process, with common objects and with copies; "subprocess" has processes and shared
memory, "pipes" processes without; the last is a third party's. What a pool cannot serve it refuses by name.
"""

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "third_party" / "maze_acme" / "src"))

from maze_kernel.errors import RequestError
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.run.pools import make_pool
from maze_runtime.training.evaluation import Evaluator

POOLS = {
    "inline": {"use": "inline"},
    "by value": {"use": "maze_testing.by_value_pool:ByValuePool"},
    "subprocess": {"use": "subprocess", "preload": ["maze_runtime.rollout.collecting_actor"]},
    "pipes": {"use": "maze_acme.pipe_pool:PipePool"},
}
OTHERS = [
    "by value",
    pytest.param("subprocess", marks=pytest.mark.slow),
    pytest.param("pipes", marks=pytest.mark.slow),
]
NORMALISED = {"use": "observation-normalization", "n_estimation_steps": 60}
TRAINERS = {
    "ppo": {"epoch_length": 2, "n_rollout_steps": 8, "batch_size": 20, "n_optimization_epochs": 2},
    "a2c": {"epoch_length": 2, "n_rollout_steps": 8},
    "impala": {"epoch_length": 3, "n_rollout_steps": 8, "num_actors": 5, "actors_batch_size": 3, "deterministic": True},
    "es": {"n_rollouts_per_update": 6, "noise": {"use": "table", "size": 50_000}},
    "sac": {"epoch_length": 3, "n_rollout_steps": 4, "initial_buffer_size": 60, "batch_size": 16},
}
STRUCTURED = {"env": {"use": "maze_testing.structured_environments:Hierarchy"}, "model": {"use": "auto"}}


@pytest.fixture
def default_tables():
    return {
        "env": {"use": "maze_testing.vectors:Wanderer"},
        "vector": {"n_envs": 5, "mode": "workers"},
        "trainer": {},
        "wrappers": [NORMALISED],
        "evaluation": {"n_episodes": 5},
    }


@pytest.fixture
def on(assemble):
    """`on(pool, **tables)` -> Assembly with two workers of this pool."""

    def build(pool, **tables):
        return assemble(**{"trainer": {"use": "ppo"}, "workers": {**POOLS[pool], "count": 2}, **tables})

    return build


def weights_after_training(assembly):
    """Two segments of an epoch each."""
    trainer = assembly.make_trainer(assembly.trainer_context())
    with closing(trainer):
        assembly.estimate_transforms()
        for epoch in range(2):
            trainer.start_segment(epoch)
            trainer.train_epoch()
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_training(on, trainer, pool):
    tables = {"trainer": {"use": trainer, **TRAINERS[trainer]}}
    if trainer == "sac":
        tables["model"] = {"use": "auto", "hidden_units": [8]}
    expected, learnt = (weights_after_training(on(name, **tables)) for name in ("inline", pool))
    assert torch.isfinite(learnt).all()
    assert torch.equal(learnt, expected)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
def test_training_in_structured_environments(on, pool):
    tables = {"trainer": {"use": "ppo", **TRAINERS["ppo"]}, "wrappers": [], **STRUCTURED}
    expected, learnt = (weights_after_training(on(name, **tables)) for name in ("inline", pool))
    assert torch.equal(learnt, expected)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
def test_estimates(on, pool):
    expected, estimated = (on(name).estimated_states() for name in ("inline", pool))
    for part in ("mean", "count"):
        for name, own in expected[0]["estimated"].items():
            np.testing.assert_array_equal(estimated[0]["estimated"][name][part], own[part])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
def test_evaluation(on, pool):
    def play(assembly, workers):
        assembly.estimated_states()
        evaluator = Evaluator(assembly, workers)
        with closing(evaluator):
            return evaluator(assembly.make_model())

    expected = play(on("inline"), None)
    assembly = on(pool)
    with make_pool(assembly.experiment.workers) as workers:
        # Products of other numbers of rows round otherwise on some processors.
        assert play(assembly, workers) == pytest.approx(expected, rel=1e-5)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
def test_rollouts(on, kernel, pool):
    def play(assembly):
        episodes = roll_out(assembly.loaded, kernel, RolloutOptions(n_episodes=5)).episodes
        assert [episode.error for episode in episodes] == [None] * 5
        return [(episode.seed, episode.total_reward, episode.length) for episode in episodes]

    assert play(on(pool)) == play(on("inline"))


@pytest.fixture
def recording(on, kernel, tmp_path):
    options = RolloutOptions(n_episodes=4, record_dir=tmp_path / "recording", n_workers=1)
    roll_out(on("inline").loaded, kernel, options)
    return tmp_path / "recording"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", OTHERS)
def test_readers_of_demonstrations(on, recording, pool):
    demonstrations = {"use": "trajectories", "path": str(recording)}
    trainer = {"use": "bc", "demonstrations": demonstrations, "batch_size": 4}
    expected = weights_after_training(on("inline", trainer=trainer))
    assembly = on(pool, trainer=trainer)
    with make_pool(assembly.experiment.workers) as workers:
        shares_files = workers.shares_files
    if shares_files:
        assert torch.equal(weights_after_training(assembly), expected)
        return
    with pytest.raises(RequestError, match="recorded episodes are read from files"):
        weights_after_training(assembly)
