"""The SAC trainer: act, store, draw, update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.errors import NonFiniteError, RequestError, SpaceError
from maze_kernel.models.contract import ActionValueModel
from maze_kernel.models.device import resolve_device, threads_for
from maze_kernel.training.contract import Progress, Statistics, TrainerContext
from maze_kernel.training.schedules import learning_rate
from maze_kernel.training.stopwatch import Stopwatch
from maze_sac.experience import Experience
from maze_sac.options import SACOptions
from maze_sac.replay import Transitions
from maze_sac.update import STATISTICS, Batch, Update

OWNER = "maze-sac"


class SACTrainer:
    """Soft actor-critic on flat environments.

    Raises:
        SpaceError: the environment has more than one policy key or agent, or a head SAC cannot serve.
        RequestError: the device does not exist, or the model has no Q networks.
    """

    def __init__(self, context: TrainerContext, options: SACOptions) -> None:
        _require_flat(context)
        self.options = options
        device = resolve_device(options.device)
        model: Any = context.make_model()
        _require_action_values(model)
        self.model: ActionValueModel = model.to(device)
        self._context = context
        self._device = device
        self._update = Update(self.model, context.spaces.policy_keys[0], options)
        self._experience = Experience(context, self.model, options)
        self._rng = np.random.default_rng()
        self._torch_state = torch.random.get_rng_state()
        self._epoch = 0
        self._env_steps = 0
        self._n_updates = 0

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self._env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, action samples, batches and noise from the run's seed and `epoch`."""
        seeds = self._context.seeds
        self._experience.start_segment(epoch)
        self._rng = seeds.generator("replay", epoch)
        self._torch_state = torch.Generator().manual_seed(seeds.seed("update-noise", epoch)).get_state()

    def train_epoch(self) -> Statistics:
        """Fill the buffer if it is the first epoch, then `epoch_length` iterations."""
        clock = Stopwatch()
        steps_before, statistics = self._env_steps, []
        n_parameters = len(self._update.policy_flat.data) + len(self._update.critic_flat.data)
        with threads_for(n_parameters, self.options.batch_size), torch.random.fork_rng(devices=self._cuda_devices()):
            self._set_noise()
            self._fill()
            clock.lap("rollout_seconds")
            for i in range(self.options.epoch_length):
                self._report(i, "train" if self._update.is_compiled else "compile")
                for _ in range(self.options.rollouts_per_iteration):
                    self._env_steps += self._experience.collect()
                clock.lap("rollout_seconds")
                statistics += [self._step(i) for _ in range(self.options.num_batches_per_iter)]
                clock.lap("update_seconds")
            self._torch_state = torch.random.get_rng_state()
        self._epoch += 1
        return self._summary(torch.stack(statistics), clock, self._env_steps - steps_before)

    def _set_noise(self) -> None:
        torch.random.set_rng_state(self._torch_state)
        if self._device.type == "cuda":
            torch.cuda.manual_seed(int(torch.randint(2**62, ())))

    def _cuda_devices(self) -> list[int]:
        return [self._device.index or 0] if self._device.type == "cuda" else []

    def _fill(self) -> None:
        """Collect until the buffer holds `initial_buffer_size` transitions, or all it can."""
        buffer = self._experience.replay
        wanted = min(self.options.initial_buffer_size, buffer.n_envs * buffer.n_rows // 2)
        stored = buffer.n_transitions
        while stored < wanted:
            new = self._experience.collect(initial=True)
            self._env_steps += new
            stored += new
            if self._env_steps % 256 < new:
                self._report(0, "rollout")
        while not buffer.n_transitions:
            self._env_steps += self._experience.collect(initial=True)

    def _step(self, iteration: int) -> Tensor:
        transitions = self._experience.replay.sample(self.options.batch_size, self._rng)
        rate = self._learning_rate(iteration / self.options.epoch_length)
        statistics = self._update(rate, self._batch(transitions))
        self._n_updates += 1
        if self._device.type == "cpu" and not bool(statistics.isfinite().all()):
            _refuse_non_finite(transitions, self._n_updates)
        return statistics

    def _batch(self, transitions: Transitions) -> Batch:
        tensors = {
            field: {name: torch.from_numpy(array).to(self._device) for name, array in columns.items()}
            for field, columns in (
                ("observation", transitions.observation),
                ("action", transitions.action),
                ("next_observation", transitions.next_observation),
            )
        }
        return Batch(
            tensors["observation"],
            self._update.critic.action_encoder.encode(tensors["action"]),
            torch.from_numpy(transitions.reward).to(self._device),
            tensors["next_observation"],
            torch.from_numpy(transitions.terminated).to(self._device),
        )

    def _learning_rate(self, part_of_epoch: float) -> float:
        return learning_rate(
            self.options,
            epoch=self._epoch + part_of_epoch,
            env_steps=self._env_steps,
            total_env_steps=self._context.total_env_steps,
        )

    def _report(self, iteration: int, phase: str) -> None:
        if iteration % 16 == 0:
            fraction = iteration / self.options.epoch_length
            self._context.progress(Progress(env_steps=self._env_steps, fraction=fraction, phase=phase))

    def _summary(self, statistics: Tensor, clock: Stopwatch, n_steps: int) -> Statistics:
        learner = dict(zip(STATISTICS, statistics.mean(dim=0).tolist(), strict=True))
        learner |= {
            "learning_rate": self._learning_rate(0.0),
            "buffer_size": self._experience.replay.n_transitions,
            "n_updates": self._n_updates,
        }
        compile_seconds, self._update.compile_seconds = self._update.compile_seconds, 0.0
        busy = max(1e-9, sum(clock.seconds.values()) - compile_seconds)
        return {
            **self._experience.drain(),
            **{f"SACEvents/{name}": value for name, value in learner.items()},
            **{f"Timing/{name}": seconds for name, seconds in clock.seconds.items()},
            "Timing/env_steps_per_second": n_steps / busy,
            "Timing/updates_per_second": len(statistics) / busy,
            "Timing/compile_seconds": compile_seconds,
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimisers, target networks, temperature, replay buffer and counters."""
        return {
            "update": self._update.state_dict(),
            "replay": self._experience.replay.state_dict(),
            "epoch": self._epoch,
            "env_steps": self._env_steps,
            "n_updates": self._n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._update.load_state_dict(state["update"])
        self._experience.replay.load_state_dict(state["replay"])
        self._epoch = int(state["epoch"])
        self._env_steps = int(state["env_steps"])
        self._n_updates = int(state["n_updates"])

    def close(self) -> None:
        """Close the training environments."""
        self._experience.close()


def _require_flat(context: TrainerContext) -> None:
    if not context.spaces.is_flat:
        agents = dict(context.spaces.agent_counts)
        raise SpaceError(
            "sac trains environments with one policy key and one agent only",
            received=f"policy keys {', '.join(context.spaces.policy_keys)} with agents {agents}",
            expected="a flat environment",
            owner=OWNER,
            help="use a trainer for structured environments: es; `maze list-plugins` shows what is installed",
        )


def _require_action_values(model: Any) -> None:
    if not hasattr(model, "action_value_critic"):
        raise RequestError(
            "the model has no Q networks",
            received=type(model).__name__,
            expected='a model that honours critic = "state-action", such as auto or concat',
            owner=OWNER,
        )


def _refuse_non_finite(transitions: Transitions, n_updates: int) -> None:
    error = NonFiniteError(
        "the loss or its gradient is not finite; no weight was changed by it",
        received=f"NaN or infinity in update {n_updates}",
        owner=OWNER,
        help="lower trainer.lr, set trainer.max_grad_norm, or look at the batch saved in the run directory",
    )
    columns: dict[str, np.ndarray] = {}
    for field, value in attrs.asdict(transitions, recurse=False).items():
        columns |= (
            {f"{field}.{name}": array for name, array in value.items()} if isinstance(value, dict) else {field: value}
        )
    error.batch = columns  # type: ignore[attr-defined]
    raise error
