"""What others are told to do the work of kinds.py: same networks, minibatches and updates as ours.

Their libraries are loaded by who needs them, so that peak memory is that of one side alone.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from interleaved import Contender

HERE = Path(__file__).parent
N_ENVS = 8
SMALL = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
PPO_OPTIONS: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 2.5e-4,
    "gae_lambda": 0.95,
    "max_grad_norm": 0.5,
}
MakePeer = Callable[[int], Contender]
device = "cpu"
"""Of all that is made from now on."""


def learning(model: Any, steps: int, warm_up: int, n_agents: int = 1) -> Contender:
    """Lets a model of Stable-Baselines3 learn on for `steps` a round; it counts a step of each agent."""
    model.learn(warm_up * n_agents)

    def run() -> float:
        before, start = model.num_timesteps, time.perf_counter()
        model.learn(steps * n_agents, reset_num_timesteps=False)
        return (model.num_timesteps - before) / n_agents / (time.perf_counter() - start)

    return run


def _envs(env: str, n_envs: int = N_ENVS, normalize: bool = False) -> Any:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    envs = make_vec_env(lambda: gymnasium.make(env), n_envs=n_envs, seed=1)
    return VecNormalize(envs) if normalize else envs


def ppo(env: str, *, policy: str = "MlpPolicy", normalize: bool = False, **options: Any) -> MakePeer:
    """PPO, two networks of 2 × 64 after what the policy does to the observations."""

    def make(steps: int) -> Contender:
        from stable_baselines3 import PPO

        model = PPO(
            policy, _envs(env, normalize=normalize), policy_kwargs=SMALL, device=device, **PPO_OPTIONS | options
        )
        return learning(model, steps, 1024)

    return make


def a2c(env: str) -> MakePeer:
    """A2C with Adam and normalised advantages, as ours."""

    def make(steps: int) -> Contender:
        from stable_baselines3 import A2C

        model = A2C(
            "MlpPolicy",
            _envs(env),
            use_rms_prop=False,
            normalize_advantage=True,
            policy_kwargs=SMALL,
            device=device,
        )
        return learning(model, steps, 400)

    return make


def maskable(env: str) -> MakePeer:
    """PPO with masks."""

    def make(steps: int) -> Contender:
        from sb3_contrib import MaskablePPO

        model = MaskablePPO("MlpPolicy", _envs(env), policy_kwargs=SMALL, device=device, **PPO_OPTIONS)
        return learning(model, steps, 1024)

    return make


def recurrent(n_steps: int) -> MakePeer:
    """PPO with an LSTM each for policy and values."""

    def make(steps: int) -> Contender:
        from sb3_contrib import RecurrentPPO

        options = PPO_OPTIONS | {"n_steps": n_steps, "batch_size": n_steps * N_ENVS // 4}
        networks = SMALL | {"lstm_hidden_size": 64}
        model = RecurrentPPO("MlpLstmPolicy", _envs("CartPole-v1"), policy_kwargs=networks, device=device, **options)
        return learning(model, steps, n_steps * N_ENVS)

    return make


def pong() -> MakePeer:
    """PPO with NatureCNN under AtariWrapper."""

    def make(steps: int) -> Contender:
        import ale_py
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_atari_env
        from stable_baselines3.common.vec_env import VecFrameStack

        gymnasium.register_envs(ale_py)
        envs = VecFrameStack(make_atari_env("ALE/Pong-v5", n_envs=N_ENVS, seed=1, env_kwargs={"frameskip": 1}), 4)
        model = PPO("CnnPolicy", envs, device=device, **PPO_OPTIONS | {"clip_range": 0.1, "ent_coef": 0.01})
        return learning(model, steps, 1024)

    return make


def simple_spread(n_envs: int) -> MakePeer:
    """PPO, the three agents of each game as three environments."""

    def make(steps: int) -> Contender:
        import supersuit
        from mpe2 import simple_spread_v3
        from stable_baselines3 import PPO

        game = supersuit.pettingzoo_env_to_vec_env_v1(simple_spread_v3.parallel_env())
        envs = supersuit.concat_vec_envs_v1(game, n_envs, num_cpus=0, base_class="stable_baselines3")
        model = PPO("MlpPolicy", envs, policy_kwargs=SMALL, device=device, **PPO_OPTIONS | {"batch_size": 768})
        return learning(model, steps, 1024, n_agents=3)

    return make


def rllib_spread(n_envs: int) -> MakePeer:
    """RLlib's PPO in a process of its own, by the interpreter that RLLIB_PYTHON names, or `make ray-venv` made."""

    def make(steps: int) -> Contender:
        interpreter = os.environ.get("RLLIB_PYTHON", str(HERE.parent / ".venv-ray/bin/python"))
        command = [interpreter, str(HERE / "peers/rllib_teams.py"), *map(str, (n_envs, PPO_OPTIONS["n_steps"], 768, 4))]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        atexit.register(process.communicate)

        def run() -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
            while line := process.stdout.readline():
                try:
                    return float(line)
                except ValueError:  # what Ray says
                    continue
            raise RuntimeError(f"{' '.join(command)} ended with exit status {process.wait()}")

        run()
        return run

    return make


def _off_policy(algorithm: str, env: str, policy: str, batch_size: int, starts: int) -> MakePeer:
    def make(steps: int) -> Contender:
        import stable_baselines3

        model = getattr(stable_baselines3, algorithm)(
            policy,
            gymnasium.make(env),
            learning_starts=starts,
            batch_size=batch_size,
            learning_rate=3e-4,
            buffer_size=20_000,
            train_freq=1,
            policy_kwargs={"net_arch": [256, 256]},
            device=device,
        )
        return learning(model, steps, starts + 50)

    return make


def sac(env: str, *, policy: str = "MlpPolicy", batch_size: int = 256, starts: int = 1000) -> MakePeer:
    """SAC, an update a step."""
    return _off_policy("SAC", env, policy, batch_size, starts)


def td3(env: str) -> MakePeer:
    """TD3, an update a step, the policy's every second."""
    return _off_policy("TD3", env, "MlpPolicy", 256, 1000)


def dqn(env: str) -> MakePeer:
    """DQN without double and duelling, an update of 64 in four steps, the target copied every 250 updates."""

    def make(steps: int) -> Contender:
        from stable_baselines3 import DQN

        model = DQN(
            "MlpPolicy",
            gymnasium.make(env),
            learning_starts=1000,
            batch_size=64,
            learning_rate=3e-4,
            buffer_size=20_000,
            train_freq=4,
            target_update_interval=1000,
            exploration_fraction=0.001,
            policy_kwargs={"net_arch": [64, 64]},
            device=device,
        )
        return learning(model, steps, 1400)

    return make
