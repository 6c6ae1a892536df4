"""The trainer: one training iteration of RLlib an epoch. Ray is imported when the trainer is built, not before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_rllib.options import RLlibOptions
from maze_runtime.models.device import resolve_device
from maze_runtime.training.counters import Counters


class RLlibTrainer:
    """Trains a Maze model by an algorithm of RLlib.

    RLlib is told everything when the trainer is built, so that what does not fit is refused there; it comes to life in
    the first segment, when wrappers have their statistics and a resumed run its state.

    Raises:
        PluginError: Ray is missing.
        RequestError: a key, a model, a space or a wrapper that the algorithm cannot serve.
    """

    def __init__(self, context: TrainerContext, options: RLlibOptions) -> None:
        options.check_ready()
        from maze_rllib.algorithms import make_plan

        self.options = options
        self.model: ActorCritic = context.make_model()
        self._context = context
        self._counters = Counters(options, context.progress)
        self._plan = make_plan(context, options, self.model, resolve_device(options.device))
        self._running: Any = None
        self._state: Mapping[str, Any] | None = None

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Build RLlib's algorithm in the first segment; later ones go on: RLlib's environments are not seeded again."""
        if self._running is not None:
            return
        from maze_rllib.running import Running

        self._running = Running(self._plan, self.model, seed=self._context.seeds.seed("rllib", epoch))
        if self._state is not None:
            self._running.restore(self._state, self.model)
            self._state = None

    def train_epoch(self) -> Statistics:
        """One training iteration."""
        start = time.perf_counter()
        self._counters.report(0.0, "rollout")
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # with more, a pass over few rows takes several times as long
        try:
            n_steps, statistics, events = self._running.train()
        finally:
            torch.set_num_threads(before)
        self._running.copy_weights(self.model)
        self._context.add_events(events)
        self._counters.epoch += 1
        self._counters.env_steps += n_steps
        seconds = time.perf_counter() - start
        return {**statistics, "Timing/env_steps_per_second": n_steps / max(1e-9, seconds)}

    def state_dict(self) -> dict[str, Any]:
        """Counters, and RLlib's optimisers, schedules and counters; replay is left out."""
        state = dict(self._state or {}) if self._running is None else self._running.state()
        return {**self._counters.state_dict(), "rllib": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, now or in the first segment; the weights are those of `model`."""
        self._counters.load_state_dict(state)
        if self._running is None:
            self._state = state["rllib"]
        else:
            self._running.restore(state["rllib"], self.model)

    def close(self) -> None:
        """Stop RLlib's environments and actors."""
        if self._running is not None:
            self._running.close()
            self._running = None
