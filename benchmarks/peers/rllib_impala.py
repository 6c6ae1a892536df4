"""RLlib IMPALA on the work of benchmarks/impala.py; run by it with an interpreter that has `ray[rllib]`.

Prints environment steps a second that the learner trained on, over some seconds after a warm-up.
"""

from __future__ import annotations

import logging
import sys
import time

import ray
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def main(seconds: float, n_envs: int, n_steps: int, n_rollouts: int) -> None:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    config = (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=n_envs // 2, rollout_fragment_length=n_steps)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=n_steps * n_rollouts, lr=5e-4)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"))
    )
    algorithm = config.build_algo()

    def trained() -> int:
        while True:
            learners = algorithm.train().get("learners", {})
            if "__all_modules__" in learners:
                return int(learners["__all_modules__"]["num_env_steps_trained_lifetime"])

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = trained()
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        after = trained()
    print((after - before) / (time.perf_counter() - start))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:]))
