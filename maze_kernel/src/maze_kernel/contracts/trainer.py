"""The Trainer protocol and the context a trainer is built from.

A trainer turns environments and a model into updates; the loop around it evaluates, selects, saves, logs and
stops for every algorithm alike. Trainers share functions, never a base class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from maze_kernel.contracts.env import StructuredEnv, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.logger import Progress
from maze_kernel.contracts.model import ActorCritic, Policy
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.contracts.workers import WorkerPool

Statistics = dict[str, Any]
"""Tag to number, array (for a histogram) or tensor, "ActorCriticEvents/policy_loss": 0.12. No train/eval prefix."""


class Seeds(Protocol):
    """The random streams of a run by name; each is independent of the others and of the order they are asked for."""

    def seed(self, *names: str | int) -> int:
        """One seed in [0, 2**31)."""
        ...

    def seeds(self, n_seeds: int, *names: str | int) -> list[int]:
        """n seeds in [0, 2**31), for environments and libraries that take small integers."""
        ...

    def generator(self, *names: str | int) -> np.random.Generator:
        """A NumPy generator of its own."""
        ...


@attrs.frozen(kw_only=True)
class TrainerContext:
    """Everything a trainer may use.

    Attributes:
        spaces: of the wrapped environment.
        n_envs: environments a training batch.
        make_vector_env: a new training batch (the caller closes it); `reset` it with seeds from `seeds`.
        make_model: a new model; same weights for the same run seed, or those of `initialize_from` where they fit.
        make_policy: (model, seed) -> what `model.make_policy` gives, inside the trainer's `policy_wrapper` if it has
            one. A trainer that steers exploration calls the model's and puts the wrapper around it by `wrap_policy`.
        make_workers: the experiment's worker pool.
        has_workers: whether the experiment has a `[workers]` table; without one `make_workers` gives an inline pool.
        seeds: named, reproducible seeds of this run.
        progress: call it between updates, a few times a second at most; an exception ends the epoch, True asks to.
        make_env: one environment with the wrappers that must see a single one, without transforms: its conversions
            read recordings of MazeStates. The caller closes it.
        transforms: of the training environments, innermost first and with the statistics of the run: recorded
            episodes go through them before they are learnt from.
        make_actor_envs: (n_envs, number of the first in messages) -> a batch of training environments with their
            transforms, stepped by whoever calls it; survives transport to a worker. The caller closes it. Transforms
            with running statistics are copies, to be brought together by `Transform.take_partial`.
        add_events: takes the event statistics of episodes that were played in batches of `make_actor_envs`.
    """

    spaces: StructuredSpaces
    n_envs: int
    make_vector_env: Callable[[], VectorEnv]
    make_model: Callable[[], ActorCritic]
    make_policy: Callable[[ActorCritic, int], Policy]
    make_workers: Callable[[], WorkerPool]
    seeds: Seeds
    progress: Callable[[Progress], bool | None]
    has_workers: bool
    make_env: Callable[[], StructuredEnv]
    transforms: Sequence[Transform]
    make_actor_envs: Callable[[int, int], VectorEnv]
    add_events: Callable[[Iterable[EpisodeStatistics]], None]


class Trainer(Protocol):
    """One training algorithm.

    Options classes of trainers all have `n_epochs`, `patience`, `device` and `compile`, and `max_env_steps` unless the
    trainer takes no environment steps; the loop reads them through the trainer's `options`. A trainer may have an
    attribute `metric`, the statistic that selects the best model where `[evaluation] metric` is not set, in the same
    words: "-train_ImitationEvents/policy_loss" is minimised.
    """

    options: Any
    model: ActorCritic
    env_steps: int
    """Environment steps of the whole run so far; void steps (resets) not counted."""

    def start_segment(self, epoch: int) -> None:
        """Re-seed and reset the training environments from (run seed, epoch).

        Called before the first epoch, after every checkpoint boundary, and after a resume: what follows
        depends only on `state_dict` and on `epoch`.
        """
        ...

    def train_epoch(self) -> Statistics:
        """Run one epoch; statistics of losses, speed and the training episodes that finished in it."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything but the model's weights and what `start_segment` rebuilds.

        Nested dicts of tensors, arrays and JSON values: optimiser, counters, replay, random states.
        """
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...
