"""RLlib's PPO on simple_spread, one policy for three agents; started by kinds.py with an interpreter that has RLlib.

For each line that it reads, a number of environment steps, it trains for at least as many and prints how many a second.
"""

from __future__ import annotations

import logging
import sys
import time

import ray
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env


def main(n_envs: int, n_steps: int, batch_size: int, n_passes: int) -> None:
    """Train as often as standard input asks for."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    config = (
        PPOConfig()
        .environment("spread")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=n_envs, rollout_fragment_length=n_steps)
        .learners(num_learners=0)
        .multi_agent(policies={"team"}, policy_mapping_fn=lambda *_, **__: "team")
        .training(
            train_batch_size_per_learner=n_envs * n_steps,
            minibatch_size=batch_size,
            num_epochs=n_passes,
            lr=2.5e-4,
            gamma=0.99,
            lambda_=0.95,
            grad_clip=0.5,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
    )
    algorithm = config.build_algo()
    for line in sys.stdin:
        wanted, taken, start = int(line), 0, time.perf_counter()
        while taken < wanted:
            taken += int(algorithm.train()["env_runners"]["num_env_steps_sampled"])
        print(taken / (time.perf_counter() - start), flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
