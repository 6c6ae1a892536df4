"""RLlib's algorithm while it lives: train, copy weights, take its state apart and put it back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import gymnasium
import numpy as np
import torch

from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics
from maze_rllib.algorithms import Plan
from maze_rllib.module import MODEL
from maze_rllib.session import start_ray, stderr_held_back
from maze_rllib.statistics import epoch_statistics, noted_events

GROUP, LEARNER, MODULES, METRICS = "learner_group", "learner", "rl_module", "metrics_logger"
RUNNER, WEIGHTS_NUMBER = "env_runner", "weights_seq_no"
_GYMNASIUM_NAMES = ("rllib-single-agent-env-v0", "rllib-multi-agent-env-v0")
"""Under which RLlib registers its environments."""
ADAPTED = "adapted"
_COEFFICIENTS = ("curr_kl_coeffs_per_module", "curr_log_alpha")
"""Of KL in PPO and APPO, of entropy in SAC."""


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
        start_ray(plan.n_cpus)
        for taken in _GYMNASIUM_NAMES:  # by an algorithm before; Gymnasium would warn
            gymnasium.registry.pop(taken, None)
        name = f"maze-{uuid4().hex}"
        register_env(name, plan.make_envs)
        config = plan.config.copy(copy_frozen=False)
        config.environment(env=name)
        config.debugging(seed=seed)
        with stderr_held_back():
            self._algorithm = _without_folder(config.algo_class)(config=config)
        self._paste_weights(model)

    def train(self) -> tuple[int, Statistics, list[EpisodeStatistics]]:
        """One iteration: environment steps, statistics, and events of the episodes that ended."""
        results = self._algorithm.train()
        n_steps = int(results.get("env_runners", {}).get("num_env_steps_sampled", 0))
        return n_steps, epoch_statistics(results, self._plan.modules), noted_events(results)

    def copy_weights(self, model: ActorCritic) -> None:
        """The learner's weights into `model`, in place."""
        own: Any = model
        state = self._learner_state()[MODULES]
        weights = {}
        for module in self._plan.modules:
            found = _weights_of(state[module])
            names = self._plan.own.get(module, tuple(found))
            weights.update({name: found[name] for name in names})
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
        own.load_state_dict(tensors, strict=not self._plan.own)

    def state(self) -> dict[str, Any]:
        """RLlib's state but for the model's weights and replay: numbers, strings and arrays."""
        whole = self._algorithm.get_state()
        learner = {name: part for name, part in whole[GROUP][LEARNER].items() if name != METRICS}
        learner[MODULES] = {module: _beside_model(part) for module, part in learner[MODULES].items()}
        adapted = next(iter(self._algorithm.learner_group.foreach_learner(read_adapted))).get()
        return {**whole, GROUP: {LEARNER: learner}, ADAPTED: adapted}

    def restore(self, state: Mapping[str, Any], model: ActorCritic) -> None:
        """Put back what `state` returned, with the weights of `model`."""
        weights = _prefixed(model)
        learner = dict(state[GROUP][LEARNER])
        learner[MODULES] = {module: {**part, **weights} for module, part in learner[MODULES].items()}
        # A runner that believes to have these weights would not take them.
        runner = {name: part for name, part in state.get(RUNNER, {}).items() if name != WEIGHTS_NUMBER}
        beside = {RUNNER: runner} if RUNNER in state else {}
        own = {name: part for name, part in state.items() if name != ADAPTED}
        self._algorithm.set_state({**own, **beside, GROUP: {LEARNER: learner}})
        self._algorithm.learner_group.foreach_learner(partial(write_adapted, state[ADAPTED]))

    def close(self) -> None:
        """Stop its actors and environments; Ray itself lives as long as the process."""
        self._algorithm.stop()
        shutil.rmtree(self._algorithm.logdir, ignore_errors=True)

    def _learner_state(self) -> dict[str, Any]:
        group = self._algorithm.learner_group
        state: dict[str, Any] = group.get_state(components=f"{LEARNER}/{MODULES}")[LEARNER]
        return state

    def _paste_weights(self, model: ActorCritic) -> None:
        state = {module: _prefixed(model) for module in self._plan.modules}
        self._algorithm.learner_group.set_state({LEARNER: {MODULES: state}})
        self._algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=self._algorithm.learner_group)


def read_adapted(learner: Any) -> dict[str, dict[str, float]]:
    """The coefficients that a learner adapts and does not count to its state."""
    found = {name: getattr(learner, name, {}) for name in _COEFFICIENTS}
    return {
        name: {key: float(torch.as_tensor(value).detach()) for key, value in by_module.items()}
        for name, by_module in found.items()
    }


def write_adapted(values: Mapping[str, Mapping[str, float]], learner: Any) -> None:
    """Put back what `read_adapted` gave."""
    for name, by_module in values.items():
        for module, value in by_module.items():
            getattr(learner, name)[module].data.fill_(value)


def _prefixed(model: ActorCritic) -> dict[str, np.ndarray]:
    own: Any = model
    return {f"{MODEL}.{name}": tensor.detach().cpu().numpy() for name, tensor in own.state_dict().items()}


def _weights_of(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    prefix = f"{MODEL}."
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _beside_model(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: array for name, array in state.items() if not name.startswith(f"{MODEL}.")}


def _without_folder(algorithm: type) -> type:
    """The algorithm, writing nothing below the home directory."""

    def _setup_logdir(self: Any) -> None:
        self._logdir = tempfile.mkdtemp(prefix="maze-rllib-")

    return type(algorithm.__name__, (algorithm,), {"_setup_logdir": _setup_logdir})
