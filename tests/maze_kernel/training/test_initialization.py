"""Fine-tuning across algorithms: what `initialize_from` takes over, what it leaves, and what it says."""

import numpy as np
import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_kernel.training.checkpoint import CheckpointStore
from maze_kernel.training.loop import train

SHORT = {
    "ppo": {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 16},
    "es": {"use": "es", "n_epochs": 1, "n_rollouts_per_update": 2, "max_steps": 20, "noise": {"use": "seeded"}},
    "sac": {"use": "sac", "n_epochs": 1, "epoch_length": 1, "batch_size": 8, "initial_buffer_size": 8},
}
NORMALIZATION = {"use": "observation-normalization", "n_estimation_steps": 50}
CARTPOLE = {"use": "gym", "id": "CartPole-v1"}


@pytest.fixture(scope="module")
def kernel():
    return Kernel.installed()


@pytest.fixture
def run(kernel, tmp_path):
    """`run(name, trainer, **tables)` trains a moment; "frozen" is PPO that trains nothing but its critic."""

    def go(name, trainer, **tables):
        options = {**SHORT["ppo"], "critic_burn_in_epochs": 1} if trainer == "frozen" else SHORT[trainer]
        data = {
            "name": name,
            "env": CARTPOLE,
            "vector": {"n_envs": 2},
            "trainer": options,
            "evaluation": {"n_episodes": 0},
            "model": {"use": "auto", "hidden_units": [8]},
            "loggers": [{"use": "csv"}],
            **{key: str(value) if key == "initialize_from" else value for key, value in tables.items()},
        }
        return train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=tmp_path / name, verbosity=-1)

    return go


def policy_of(result):
    return {name: tensor.clone() for name, tensor in result.model.policy_state_dict().items()}


def log_of(result):
    return (result.run_dir / "log.txt").read_text()


@pytest.mark.parametrize("trainer", ["ppo", "es", "sac"])
def test_the_policy_of_any_trainer_is_taken_over(run, trainer):
    first = run("first", trainer)
    saved = CheckpointStore(first.run_dir).load_named("best").model
    second = run("second", "frozen", initialize_from=first.run_dir, seed=5)
    for name, tensor in policy_of(second).items():
        assert torch.equal(tensor, saved[name]), name
    log = log_of(second)
    assert f"initialised from epoch 1 of {first.run_dir} ({trainer})" in log
    assert "policy: all 4 tensors taken over" in log
    critic = {
        "ppo": "critic: all 4 tensors",
        "es": "critic: new, because es trains none",
        "sac": "critic: new, nothing",
    }
    assert critic[trainer] in log


def test_the_critic_of_a_run_that_trained_one_comes_along(run):
    first = run("first", "ppo")
    second = run("second", "es", initialize_from=first.run_dir, seed=5)
    theirs = CheckpointStore(first.run_dir).load_named("best").model
    own = second.model.state_dict()
    critic = [name for name in own if name.startswith("critics.")]
    assert critic
    assert all(torch.equal(own[name], theirs[name]) for name in critic)


def test_normalisers_go_to_the_wrapper_of_the_same_name(run):
    first = run("first", "ppo", wrappers=[{"use": "reward-scaling", "scale": 2.0}, NORMALIZATION])
    wrappers = [NORMALIZATION, {"use": "return-normalization"}]
    second = run("second", "ppo", wrappers=wrappers, initialize_from=first.run_dir, seed=5)
    (theirs,) = (s["estimated"] for s in CheckpointStore(first.run_dir).load_named("last").state["transforms"] if s)
    ours = CheckpointStore(second.run_dir).load_named("last").state["transforms"][0]["estimated"]
    np.testing.assert_array_equal(ours["observation"]["mean"], theirs["observation"]["mean"])
    assert "wrapper observation-normalization: statistics taken over" in log_of(second)
    assert "estimating" not in log_of(second)


def test_a_normaliser_without_a_place_is_named(run):
    first = run("first", "ppo", wrappers=[NORMALIZATION])
    second = run("second", "ppo", initialize_from=first.run_dir)
    assert "wrapper observation-normalization: not in this experiment" in log_of(second)


def test_what_does_not_fit_is_named(run):
    first = run("first", "ppo")
    second = run("second", "ppo", initialize_from=first.run_dir, model={"use": "auto", "hidden_units": [8, 8]})
    assert "of 6 tensors taken over; left as they were: policies.key_0" in log_of(second)


def test_a_model_that_does_not_fit_at_all_is_refused_with_both_shapes(run):
    first = run("first", "ppo")
    with pytest.raises(RequestError) as caught:
        run("second", "ppo", initialize_from=first.run_dir, model={"use": "auto", "hidden_units": [6, 5]})
    assert "instead of" in caught.value.received
    assert "[model]" in caught.value.help


def test_a_folder_that_is_no_run_is_refused_before_anything_is_created(run, tmp_path):
    with pytest.raises(RequestError, match="nowhere") as caught:
        run("second", "ppo", initialize_from=tmp_path / "nowhere")
    assert "initialize_from" in caught.value.what
    assert not (tmp_path / "second").exists()
