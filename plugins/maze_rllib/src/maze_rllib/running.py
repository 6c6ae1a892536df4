"""RLlib's algorithm while it lives: train, copy weights, take its state apart and put it back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics
from maze_rllib.algorithms import Plan, refusal
from maze_rllib.module import MODEL
from maze_rllib.session import start_ray
from maze_rllib.statistics import epoch_statistics

LEARNER, MODULES, METRICS = "learner", "rl_module", "metrics_logger"


class Running:
    """An algorithm that was built.

    Args:
        plan: what RLlib is told.
        model: the weights to begin with.
        seed: of its environments and samples.
    """

    def __init__(self, plan: Plan, model: ActorCritic, *, seed: int) -> None:
        from ray.tune.registry import register_env

        self._plan = plan
        if plan.n_cpus:
            start_ray(plan.n_cpus)
        name = f"maze-{uuid4().hex}"
        register_env(name, plan.make_envs)
        config = plan.config.copy(copy_frozen=False)
        config.environment(env=name)
        config.debugging(seed=seed)
        self._algorithm = _without_folder(config.algo_class)(config=config)
        self._paste_weights(model)

    def train(self) -> tuple[int, Statistics]:
        """One iteration: environment steps and statistics."""
        results = self._algorithm.train()
        n_steps = int(results.get("env_runners", {}).get("num_env_steps_sampled", 0))
        return n_steps, epoch_statistics(results, self._plan.modules)

    def copy_weights(self, model: ActorCritic) -> None:
        """The learner's weights into `model`, in place."""
        own: Any = model
        state = self._learner_state()[MODULES]
        weights = {}
        for module in self._plan.modules:
            weights.update(_weights_of(state[module]))
        own.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})

    def state(self) -> dict[str, Any]:
        """RLlib's state without weights of `model`, replay and its own statistics: numbers, strings and arrays."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put back what `state` returned."""

    def close(self) -> None:
        """Stop its actors and environments; Ray itself lives as long as the process."""
        self._algorithm.stop()
        shutil.rmtree(self._algorithm.logdir, ignore_errors=True)

    def _learner_state(self) -> dict[str, Any]:
        group = self._algorithm.learner_group
        return group.get_state(components=f"{LEARNER}/{MODULES}")[LEARNER]

    def _paste_weights(self, model: ActorCritic) -> None:
        own: Any = model
        weights = {f"{MODEL}.{name}": tensor.detach().cpu().numpy() for name, tensor in own.state_dict().items()}
        state = {module: dict(weights) for module in self._plan.modules}
        self._algorithm.learner_group.set_state({LEARNER: {MODULES: state}})
        self._algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=self._algorithm.learner_group)


def _weights_of(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    prefix = f"{MODEL}."
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _without_folder(algorithm: type) -> type:
    """The algorithm, writing nothing below the home directory."""

    def _setup_logdir(self: Any) -> None:
        self._logdir = tempfile.mkdtemp(prefix="maze-rllib-")

    return type(algorithm.__name__, (algorithm,), {"_setup_logdir": _setup_logdir})
