"""Sample Factory's asynchronous PPO with V-trace on the work of benchmarks/impala.py.

Run by it with an interpreter that has `sample-factory`. Prints environment steps a second that the learner trained
on, over some seconds after a warm-up.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time

import gymnasium
from sample_factory.algo.learning.learner import Learner
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sample_factory.utils.attr_dict import AttrDict

# With V-trace the learner of release 2 fails in the summaries of a batch, which ask for advantages of GAE. Here at the
# top, because its processes are spawned and import this file.
Learner._record_summaries = lambda _learner, _variables: AttrDict()


def make_env(_name, _config, _env_config, _render_mode=None, **_other):
    return gymnasium.make("CartPole-v1")


class Watch(AlgoObserver):
    """Notes trained steps and the time at every report of the runner; stops it when it has seen enough."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reports: list[tuple[float, int]] = []

    def on_training_step(self, runner, training_iteration_since_resume):
        now = time.perf_counter()
        self.reports.append((now, sum(runner.env_steps.values())))
        if now > self.reports[0][0] + 3 * self.seconds:
            runner.cfg.train_for_env_steps = 0  # the budget in seconds is never reached in this release

    def rate(self) -> float:
        middle = self.reports[0][0] + self.seconds
        (first, before), *_, (last, after) = [report for report in self.reports if report[0] >= middle]
        return (after - before) / (last - first)


def main(seconds: float, n_envs: int, n_steps: int, n_rollouts: int) -> None:
    register_env("cartpole", make_env)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        arguments = {
            "algo": "APPO",
            "env": "cartpole",
            "experiment": "benchmark",
            "train_dir": folder,
            "device": "cpu",
            "async_rl": True,
            "serial_mode": False,
            "batched_sampling": False,
            "num_workers": 2,
            "num_envs_per_worker": n_envs // 2,
            "worker_num_splits": 2,
            "rollout": n_steps,
            "recurrence": n_steps,
            "batch_size": n_steps * n_rollouts,
            "num_batches_per_epoch": 1,
            "num_epochs": 1,
            "with_vtrace": True,
            "use_rnn": False,
            "encoder_mlp_layers": ["64", "64"],
            "nonlinearity": "tanh",
            "normalize_input": False,
            "normalize_returns": False,
            "save_every_sec": 10_000,
        }
        argv = []
        for name, value in arguments.items():
            argv += [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
        parser, _ = parse_sf_args(argv)
        _, runner = make_runner(parse_full_cfg(parser, argv))
        watch = Watch(seconds)
        runner.register_observer(watch)
        runner.init()
        runner.run()
    print(watch.rate())


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:]))
