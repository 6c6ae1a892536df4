"""Experiments put together at random: they train, go on from any checkpoint, and need no fast path for their numbers.

Each seed is one experiment: spaces, actors, wrappers, model and settings as they come. An experiment that fails here is
told by trainer and seed: `experiment("ppo", random.Random(seed))`.
"""

import copy
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from any_game import ACTIONS, BOUNDED, CHOICES, OBSERVATIONS

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import MazeError
from maze_kernel.loader import Kernel
from maze_runtime.training import recorded_gradient
from maze_runtime.training.train import train

KERNEL = Kernel.installed()
ON_POLICY = ("ppo", "a2c", "impala")
TRAINERS = (*ON_POLICY, "sac", "td3", "dqn", "es")
WHOLE_BATCH = ("log-stats", "observation-normalization", "return-normalization")
"""Wrappers that keep statistics of all environments: they stand behind those of one."""


def experiment(use, rng):
    n_keys = rng.choice([1, 1, 1, 2, 3])
    data = {
        "name": "any",
        "seed": rng.randrange(100),
        "env": game(rng, use, n_keys),
        "wrappers": wrappers(rng),
        "model": model(rng, use),
        "trainer": {"use": use, "n_epochs": 4, "patience": 0, **trainer(rng, use)},
        "vector": {"n_envs": rng.choice([1, 2, 3, 5])},
        "evaluation": {"n_episodes": rng.choice([1, 3]), "every_epochs": rng.choice([1, 2])},
        "checkpoint": {"every_epochs": 1, "keep": 4},
        "loggers": [{"use": "csv"}],
    }
    if use == "dqn" and any(set(heads) == {"switches"} for heads in data["env"]["actions"]):
        data["trainer"]["duelling"] = True  # without it bits say nothing of how great a value is, and dqn refuses
    return data


def game(rng, use, n_keys):
    heads = list({"dqn": CHOICES, "td3": BOUNDED}.get(use, ACTIONS))
    own = {
        "use": "any_game:AnyGame",
        "observations": [rng.choices(list(OBSERVATIONS), k=rng.choice([1, 1, 2, 3])) for _ in range(n_keys)],
        "actions": [rng.choices(heads, k=rng.choice([1, 1, 2])) for _ in range(n_keys)],
        "agents": [1] * n_keys if rng.random() < 0.6 else [rng.randint(1, 3) for _ in range(n_keys)],
        "masks": rng.random() < 0.4,
        "ends": rng.choice(["either", "terminated", "truncated"]),
        "longest": rng.choice([1, 3, 9, 30]),
    }
    if rng.random() < 0.3:
        own |= {"observations": own["observations"][:1] * n_keys, "actions": own["actions"][:1] * n_keys}
    if sum(own["agents"]) > 1 and rng.random() < 0.3:
        own["leave"] = 0.1
    return own


def wrappers(rng):
    settings = {
        "observation-stack": {"n": 2},
        "reward-scaling": {"scale": 0.1},
        "reward-clipping": {},
        "time-limit": {"max_episode_steps": rng.choice([2, 5])},
        **{name: {} for name in WHOLE_BATCH},
    }
    chosen = [{"use": name, **own} for name, own in settings.items() if rng.random() < 0.2]
    rng.shuffle(chosen)
    return sorted(chosen, key=lambda wrapper: wrapper["use"] in WHOLE_BATCH)


def model(rng, use):
    own = {"use": "auto"}
    if rng.random() < 0.3:
        own["hidden_units"] = [8, 8]
    if rng.random() < 0.2 and use in ("ppo", "a2c"):
        own["recurrence"] = {"use": rng.choice(["lstm", "gru"]), "hidden_size": 5, "stateful": True}
    if rng.random() < 0.4 and use in ON_POLICY:
        own["critic"] = rng.choice(["shared-state", "step-state", "delta-state"])
    return own


def trainer(rng, use):
    if use == "es":
        return {
            "n_rollouts_per_update": rng.choice([4, 6]),
            "noise": {"use": "seeded"},
            "same_episode": rng.random() < 0.3,
            "deterministic": rng.random() < 0.5,
            "halves_together": rng.random() < 0.3,
        }
    lr = rng.choice([1e-3, 3e-4])
    own = {
        "gamma": rng.choice([0.99, 0.9, 1.0, 0.0]),
        "lr": rng.choice([lr, {"start": lr, "end": lr / 10}]),
        "max_grad_norm": rng.choice([0.0, 0.5, 10.0]),
    }
    return own | (on_policy(rng, use) if use in ON_POLICY else off_policy(rng, use))


def on_policy(rng, use):
    own = {
        "epoch_length": rng.choice([2, 4, 8]),
        "n_rollout_steps": rng.choice([1, 3, 8, 20]),
        "entropy_coef": rng.choice([0.0, 0.01]),
        "critic_burn_in_epochs": rng.choice([0, 0, 0, 1]),
    }
    if use == "impala":
        return own | {
            "deterministic": True,
            "num_actors": rng.choice([2, 4]),
            "actors_batch_size": rng.choice([1, 2]),
            "reward_clipping": rng.choice(["none", "abs_one", "soft_asymmetric"]),
        }
    own |= {"gae_lambda": rng.choice([0.95, 1.0, 0.0]), "normalize_advantages": rng.random() < 0.5}
    if use == "ppo":
        own |= {
            "batch_size": rng.choice([1, 7, 16, 64]),
            "n_optimization_epochs": rng.choice([1, 4]),
            "target_kl": rng.choice([0.0, 0.0, 0.01]),
            "value_clip_range": rng.choice([0.0, 0.2]),
        }
    return own


def off_policy(rng, use):
    own = {
        "epoch_length": rng.choice([20, 40]),
        "initial_buffer_size": rng.choice([1, 10, 40]),
        "batch_size": rng.choice([1, 8, 32]),
        "n_rollout_steps": rng.choice([1, 1, 3]),
        "num_batches_per_iter": rng.choice([0, 1, 2]),
        "replay_buffer_size": rng.choice([50, 1000]),
        "tau": rng.choice([0.005, 0.1, 1.0]),
    }
    of_one = {
        "sac": {
            "target_update_interval": rng.choice([1, 3]),
            "entropy_tuning": rng.random() < 0.7,
            "split_rollouts_into_transitions": rng.random() < 0.8,
            "initial_sampling_policy": rng.choice(["random", "policy"]),
        },
        "td3": {
            "n_step": rng.choice([1, 2, 3]),
            "twin": rng.random() < 0.7,
            "policy_delay": rng.choice([1, 2, 3]),
            "target_noise": rng.choice([0.0, 0.2]),
            "exploration_correlation": rng.choice([0.0, 0.9]),
        },
        "dqn": {
            "target_update_interval": rng.choice([1, 3]),
            "n_step": rng.choice([1, 2, 3]),
            "double": rng.random() < 0.5,
            "duelling": rng.random() < 0.5,
            "prioritized": rng.random() < 0.5,
        },
    }
    return own | of_one[use]


@pytest.fixture(autouse=True)
def recordings(monkeypatch):
    """Gradients are recorded as soon as can be, also in runs as short as these; how often they were."""
    made = []

    class Counted(recorded_gradient.Tape):
        def __init__(self, *args, **kwargs):
            made.append(self)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(recorded_gradient, "N_PLAIN", 1)
    monkeypatch.setattr(recorded_gradient, "Tape", Counted)
    return made


def trained(data, **where):
    loaded = experiment_from_mapping(copy.deepcopy(data), kernel=KERNEL)
    return train(loaded, KERNEL, verbosity=-1, **where).model.state_dict()


def assert_same(ours, others):
    assert [name for name, tensor in ours.items() if not torch.equal(tensor, others[name])] == []


def check(data, folder, monkeypatch):
    whole = whole_and_resumed(data, folder)
    with monkeypatch.context() as plainly:
        plainly.setattr(recorded_gradient, "N_PLAIN", 10**9)
        assert_same(whole, trained(data, run_dir=folder / "plain"))
    if data["trainer"]["use"] in ("sac", "td3", "dqn"):
        in_processes = {**data["vector"], "mode": "subprocess", "n_processes": 2}
        assert_same(whole, trained({**data, "vector": in_processes}, run_dir=folder / "processes"))


def whole_and_resumed(data, folder):
    """What a run comes to, which is what it comes to after it was killed in its third epoch."""
    whole = trained(data, run_dir=folder / "whole")
    assert [name for name, tensor in whole.items() if not torch.isfinite(tensor.float()).all()] == []
    shutil.copytree(folder / "whole", folder / "cut", symlinks=True)
    cut_back(folder / "cut" / "checkpoints", "epoch-000002")
    assert_same(whole, trained(data, resume=folder / "cut"))
    assert "resumed from epoch 2" in (folder / "cut" / "log.txt").read_text(encoding="utf-8")
    return whole


def cut_back(checkpoints, last):
    """As if the run had been killed behind this checkpoint."""
    for own in checkpoints.glob("epoch-*"):
        if own.name > last:
            shutil.rmtree(own)
    (checkpoints / "last").unlink()
    (checkpoints / "last").symlink_to(last)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("use", TRAINERS)
def test_an_experiment_equals_its_resumed_and_its_plain_self(use, seed, tmp_path, monkeypatch, recordings):
    check(experiment(use, random.Random(seed)), tmp_path, monkeypatch)
    assert bool(recordings) == (use != "es")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 9))
@pytest.mark.parametrize("use", TRAINERS)
def test_many_experiments_do_or_are_refused_with_help(use, seed, tmp_path, monkeypatch):
    refusal = None
    try:
        check(experiment(use, random.Random(seed)), tmp_path, monkeypatch)
    except MazeError as error:
        refusal = error
    if refusal is not None:
        assert refusal.owner
        assert refusal.help
        pytest.skip(str(refusal))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 22))
@pytest.mark.parametrize("use", TRAINERS)
def test_a_compiled_experiment_equals_its_resumed_self(use, seed, tmp_path):
    data = experiment(use, random.Random(seed))
    data["trainer"]["compile"] = True
    whole_and_resumed(data, tmp_path)
