"""Training on a GPU: the numbers of the CPU, as one CUDA graph an update, and runs that go on elsewhere."""

import sys
import warnings
from pathlib import Path

import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.env.simulation import Recording
from maze_runtime.models import network_policy
from maze_runtime.models.captured_calls import CapturedCalls
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.run.assembly import Assembly
from maze_runtime.training import captured_update
from maze_runtime.training.train import train
from maze_testing.environments import Identity
from maze_trajectories.recording import RecordingEnv

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

sys.path.insert(0, str(Path(__file__).parents[1]))  # for film and two_keys

KERNEL = Kernel.installed()
CARTPOLE, PENDULUM = ({"use": "gym", "id": name} for name in ("CartPole-v1", "Pendulum-v1"))
PROBE = "maze_testing.environments:"
MULTI_DISCRETE = {"use": PROBE + "Identity", "kind": "multi-discrete"}
MASKED = {"use": PROBE + "MaskedDict"}
TWO_KEYS = {"use": "two_keys:SignThenVerdict"}
FILM = {"use": "film:Film", "shape": [2, 44, 44]}
DENSE = {"use": "auto", "hidden_units": [16]}
PPO = {"use": "ppo", "n_rollout_steps": 32, "batch_size": 32, "n_optimization_epochs": 4, "epoch_length": 3}
A2C = {"use": "a2c", "n_rollout_steps": 8, "epoch_length": 24}
OFF_POLICY = {"batch_size": 16, "initial_buffer_size": 40, "epoch_length": 24, "replay_buffer_size": 200}
SAC, TD3, DQN = ({"use": use, **OFF_POLICY} for use in ("sac", "td3", "dqn"))
DQN["epsilon"] = 0.1
IMPALA = {"use": "impala", "n_rollout_steps": 10, "epoch_length": 24}
LSTM = {**DENSE, "recurrence": {"use": "lstm", "hidden_size": 8, "stateful": True}}
NATURE = {"use": "concat", "blocks": {"observation": {"use": "nature-cnn"}}, "critic": {"share_embedding": True}}
KINDS = {
    "ppo": (CARTPOLE, DENSE, PPO),
    "ppo box": (PENDULUM, DENSE, PPO),
    "ppo choices": (MULTI_DISCRETE, DENSE, PPO),
    "ppo masked dict": (MASKED, DENSE, PPO),
    "ppo two keys": (TWO_KEYS, DENSE, PPO),
    "ppo lstm": (CARTPOLE, LSTM, PPO),
    "ppo images": (FILM, NATURE, PPO),
    "ppo auto images": (FILM, {"use": "auto"}, PPO),
    "a2c": (CARTPOLE, DENSE, A2C),
    "impala": (CARTPOLE, DENSE, IMPALA),
    "sac": (PENDULUM, DENSE, SAC),
    "sac choices": (CARTPOLE, DENSE, SAC),
    "sac two keys": ({"use": "two_keys:SignThenSize"}, DENSE, SAC),
    "td3": (PENDULUM, DENSE, TD3),
    "dqn": (CARTPOLE, DENSE, DQN),
    "dqn all": (MASKED, DENSE, {**DQN, "duelling": True, "prioritized": True}),
    "dqn two keys": (TWO_KEYS, DENSE, DQN),
    "dqn images": (FILM, NATURE, DQN),
}
DRAWS_IN_TORCH = [name for name in KINDS if name.startswith("sac")]


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # numbers of the CPU are asked for
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


@pytest.fixture
def captured(monkeypatch):
    """What was captured as a graph, by name."""
    found, capture = [], CapturedCalls._capture

    def spy(self, *arguments):
        done = capture(self, *arguments)
        found.append(self._what if done else f"{self._what} failed")
        return done

    monkeypatch.setattr(CapturedCalls, "_capture", spy)
    return found


def experiment(name, **trainer):
    env, model, options = KINDS[name]
    data = {"name": "gpu", "seed": 3, "env": env, "model": model, "vector": {"n_envs": 2}, "wrappers": []}
    data |= {"trainer": {**options, "lr": 1e-3, "device": "cuda", **trainer}, "loggers": [{"use": "csv"}]}
    return experiment_from_mapping(
        {**data, "evaluation": {"n_episodes": 2}, "checkpoint": {"every_epochs": 1}}, kernel=KERNEL
    )


def weights(trainer):
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


def trained(name, n_epochs=2, **trainer):
    """Weights before and after, and statistics."""
    assembly = Assembly(experiment(name, **trainer), KERNEL)
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    before = weights(running).cpu()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*(cannot be captured|compile = true)")
            statistics = [running.train_epoch() for _ in range(n_epochs)]
    finally:
        running.close()
    after = weights(running).cpu()
    assert not torch.equal(before, after)
    assert torch.isfinite(after).all()
    return before, after, statistics


def distance(one, other):
    """How far apart two trainings from the same weights have come, in parts of their way."""
    assert torch.equal(one[0], other[0])
    return float((one[1] - other[1]).norm() / (other[1] - other[0]).norm())


@pytest.mark.parametrize("name", KINDS)
def test_captured_updates_give_what_plain_ones_give(name, captured, monkeypatch):
    found = trained(name)
    assert "the update" in captured
    assert not any(what.endswith("failed") for what in captured)
    for module in (captured_update, network_policy):
        monkeypatch.setattr(module, "N_PLAIN", 10**9)
    assert distance(found, trained(name)) < 1e-3


@pytest.mark.parametrize("name", [name for name in KINDS if name not in (*DRAWS_IN_TORCH, "impala")])
def test_the_gpu_comes_to_what_the_cpu_comes_to(name):
    on_gpu, on_cpu = trained(name, n_epochs=1), trained(name, n_epochs=1, device="cpu")
    # Adam makes whole steps of what is rounded where a gradient is nearly zero, as behind images of noise
    assert distance(on_gpu, on_cpu) < (0.3 if "images" in name else 0.05)
    assert on_gpu[2][0].keys() == on_cpu[2][0].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ppo", "ppo masked dict", "ppo two keys", "ppo lstm", "ppo images", "sac", "td3", "dqn"]
)
def test_compiled_updates_are_captured_too(name, captured):
    compiled = trained(name, compile=True)
    assert "the update" in captured
    assert not any(what.endswith("failed") for what in captured)
    if name in ("ppo", "ppo images", "td3", "dqn"):  # others draw in torch, or fill minibatches up where compiled
        assert distance(compiled, trained(name)) < 0.05


def run(name, run_dir=None, resume=None, **trainer):
    return train(experiment(name, **trainer), KERNEL, run_dir=run_dir, resume=resume, verbosity=-1)


@pytest.mark.parametrize("name", ["ppo", "ppo images", "ppo lstm", "sac", "td3", "dqn all", "impala"])
def test_a_run_goes_on_and_plays_without_a_gpu(tmp_path, name):
    folder = tmp_path / "run"
    run(name, folder, n_epochs=2)
    on_gpu = run(name, resume=folder, n_epochs=3)
    assert next(on_gpu.model.parameters()).device.type == "cuda"
    result = roll_out(
        experiment(name), KERNEL, RolloutOptions(n_episodes=2), checkpoint=load_checkpoint(folder, "last")
    )
    assert result is not None
    elsewhere = run(name, resume=folder, n_epochs=4, device="cpu")
    assert next(elsewhere.model.parameters()).device.type == "cpu"


@pytest.mark.parametrize("name", ["ppo", "ppo lstm", "sac", "dqn"])
def test_a_resumed_run_comes_to_the_same(tmp_path, name):
    whole = weights(run(name, tmp_path / "whole", n_epochs=3))
    run(name, tmp_path / "parts", n_epochs=1)
    torch.testing.assert_close(weights(run(name, resume=tmp_path / "parts", n_epochs=3)), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "mode"), [("ppo", "subprocess"), ("ppo", "native"), ("ppo", "sequential"), ("ppo images", "subprocess")]
)
def test_every_batch_feeds_a_gpu(name, mode):
    env, model, _ = KINDS[name]
    tables = {"name": "gpu", "env": env, "model": model, "wrappers": [], "trainer": {**PPO, "device": "cuda"}}
    assembly = Assembly(
        experiment_from_mapping({**tables, "vector": {"n_envs": 4, "mode": mode}}, kernel=KERNEL), KERNEL
    )
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    running.train_epoch()
    running.close()


def test_es_trains_on_a_gpu():
    tables = {"name": "gpu", "env": CARTPOLE, "model": DENSE, "wrappers": []}
    tables["trainer"] = {"use": "es", "device": "cuda", "n_rollouts_per_update": 8}
    assembly = Assembly(experiment_from_mapping(tables, kernel=KERNEL), KERNEL)
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    before = weights(running).clone()
    running.train_epoch()
    running.close()
    assert not torch.equal(before, weights(running))


def test_cloning_on_a_gpu_is_captured(tmp_path, captured):
    env = RecordingEnv(Identity(n_steps=20), Recording(folder=tmp_path))
    for seed in range(4):
        observation, ended = env.reset(seed=seed)[0], False
        while not ended:
            observation, _, *ends, _ = env.step({"action": int(observation["observation"].argmax())})
            ended = any(ends)
    env.close()
    tables = {"name": "gpu", "env": {"use": PROBE + "Identity"}, "model": DENSE, "wrappers": []}
    tables["trainer"] = {"use": "bc", "device": "cuda", "batch_size": 16, "demonstrations": {"path": str(tmp_path)}}
    assembly = Assembly(experiment_from_mapping(tables, kernel=KERNEL), KERNEL)
    running = assembly.make_trainer(assembly.trainer_context())
    running.start_segment(0)
    for _ in range(4):
        running.train_epoch()
    running.close()
    assert captured == ["the update"]
