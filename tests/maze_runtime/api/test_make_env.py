"""Environments of an experiment for loops and libraries of others."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from maze_kernel.errors import MazeError
from maze_runtime.context import RunContext
from maze_runtime.context_env import estimate_statistics, make_env
from maze_runtime.env.to_gymnasium import to_gymnasium

FILE = """name = "pendulum"
seed = 3
[env]
use = "gym"
id = "Pendulum-v1"
[[wrappers]]
use = "observation-normalization"
n_estimation_steps = 400
[[wrappers]]
use = "reward-scaling"
scale = 0.1
[trainer]
use = "ppo"
n_rollout_steps = 16
epoch_length = 1
[vector]
n_envs = 2
[evaluation]
n_episodes = 1
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pendulum.toml").write_text(FILE)


def played(env, n_steps=300):
    observation, _ = env.reset(seed=1)
    rng, seen, rewards = np.random.default_rng(0), [observation["observation"]], []
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step({"action": rng.uniform(-2, 2, 1).astype(np.float32)})
        seen.append(observation["observation"])
        rewards.append(reward)
        if terminated or truncated:
            observation, _ = env.reset()
    return np.array(seen), np.array(rewards)


def test_the_statistics_are_those_that_a_training_begins_with():
    context = RunContext(experiment="pendulum.toml", silent=True)
    context.train(n_epochs=1)
    (state, _) = context.checkpoint("last").transforms
    (estimated, _) = estimate_statistics("pendulum.toml")
    assert estimated.keys() == state.keys()
    np.testing.assert_equal(_plain(estimated), _plain(state))


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return np.asarray(value).tolist() if not isinstance(value, (str, type(None))) else value


def test_observations_are_normalised_and_rewards_scaled_for_training_only():
    seen, rewards = played(make_env("pendulum.toml"))
    trained, scaled = played(make_env("pendulum.toml", training=True))
    np.testing.assert_array_equal(seen, trained)
    np.testing.assert_allclose(scaled, rewards * 0.1, rtol=1e-5)
    raw, _ = played(make_env("pendulum.toml", wrappers=[]))
    # (x − mean) / std: one scale and one shift a feature
    for column in range(3):
        (scale, shift), (residual, *_), *_ = np.polyfit(raw[:, column], seen[:, column], 1, full=True)
        assert residual < 1e-6
        assert (scale, shift) != pytest.approx((1.0, 0.0), abs=0.05)


def test_statistics_that_were_estimated_once_serve_several_environments():
    statistics = estimate_statistics("pendulum.toml")
    one, other = (played(make_env("pendulum.toml", statistics=statistics))[0] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, played(make_env("pendulum.toml"))[0])
    with pytest.raises(MazeError, match="statistics"):
        make_env("pendulum.toml", statistics=statistics[:1])


def test_another_library_trains_on_it():
    from stable_baselines3 import PPO

    env = to_gymnasium(make_env("pendulum.toml", training=True))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1)
    model.learn(64)
    assert model.num_timesteps == 64
    assert np.abs(model.rollout_buffer.observations.mean(axis=(0, 1))).max() < 2.0


def test_tables_and_factories_will_do():
    assert make_env({"env": "CartPole-v1"}).reset(seed=0)[0]["observation"].shape == (4,)
    assert make_env(env="CartPole-v1", wrappers=[{"use": "observation-stack", "n": 3}]).reset(seed=0)[0]


def test_an_environment_alone_has_the_wrappers_that_are_named_and_no_others():
    plain = gymnasium.make("CartPole-v1")
    alone = make_env(env="CartPole-v1", training=True)
    np.testing.assert_array_equal(alone.reset(seed=3)[0]["observation"], plain.reset(seed=3)[0])
    assert alone.step({"action": 1})[1] == 1.0
    for asked in ({"preset": "scaled"}, {"trainer.use": "ppo"}):
        assert make_env(env="CartPole-v1", overrides=asked, training=True).transforms
    assert make_env(env="CartPole-v1", wrappers=[]).reset(seed=3)[0].keys() == {"observation"}
