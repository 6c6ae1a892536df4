"""PPO of Stable-Baselines3 with the settings that rl-zoo3 tuned for an environment, until an evaluation reaches a goal.

python peers/zoo_ppo.py CartPole-v1 --goal 475 --seed 0 --every 2048 --episodes 20
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": lambda left: left * 0.001,
        "clip_range": lambda left: left * 0.2,
        "total": 100_000,
    },
    "LunarLander-v3": {
        "n_envs": 16,
        "n_steps": 1024,
        "batch_size": 64,
        "gae_lambda": 0.98,
        "gamma": 0.999,
        "n_epochs": 4,
        "ent_coef": 0.01,
        "total": 1_000_000,
    },
    "HalfCheetah-v5": {
        "normalize": True,
        "n_envs": 1,
        "n_steps": 512,
        "batch_size": 64,
        "gae_lambda": 0.92,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.000401762,
        "vf_coef": 0.58096,
        "learning_rate": 2.0633e-05,
        "clip_range": 0.1,
        "max_grad_norm": 0.8,
        "policy_kwargs": {
            "log_std_init": -2,
            "ortho_init": False,
            "activation_fn": torch.nn.ReLU,
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
        "total": 1_000_000,
    },
}
"""From hyperparams/ppo.yml of rl-zoo3 2.x (LunarLander-v2 and HalfCheetah-v3 there); the whole budget stands, for the
schedules count on it. `normalize`: running statistics of observations, and of returns in training."""


def main() -> None:
    """Learn until the goal, print the steps it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("--goal", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, required=True, help="environment steps between evaluations")
    parser.add_argument("--episodes", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = dict(SETTINGS[arguments.env])
    n_envs, total, is_normalized = settings.pop("n_envs"), settings.pop("total"), settings.pop("normalize", False)
    envs: VecEnv = make_vec_env(arguments.env, n_envs=n_envs, seed=arguments.seed)
    evaluation_envs: VecEnv = make_vec_env(arguments.env, seed=arguments.seed + 1000)
    if is_normalized:
        envs = VecNormalize(envs, gamma=settings["gamma"])
        evaluation_envs = VecNormalize(evaluation_envs, training=False, norm_reward=False)
    evaluation = EvalCallback(
        evaluation_envs,
        callback_on_new_best=StopTrainingOnRewardThreshold(arguments.goal),
        eval_freq=max(1, arguments.every // n_envs),
        n_eval_episodes=arguments.episodes,
        verbose=0,
    )
    model = PPO("MlpPolicy", envs, seed=arguments.seed, device="cpu", **settings)
    model.learn(total, callback=evaluation)
    print(f"STEPS {model.num_timesteps} BEST {evaluation.best_mean_reward}")


if __name__ == "__main__":
    main()
