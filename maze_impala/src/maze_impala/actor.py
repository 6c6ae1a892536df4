"""What runs in a worker: steps environments with its own copy of the policy, puts rollouts into its lane."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import torch

from maze_impala.batch import CARRIED, LOG_PROB, Truncations, rollout_columns
from maze_impala.behaviour import RecurrentBehaviour, StructuredBehaviour, log_probabilities
from maze_impala.structured_batch import delta_values
from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import ArrayDict, VectorEnv
from maze_kernel.contracts.workers import ActorContext
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.flat_state import SentWeights
from maze_runtime.models.recurrence import carries_state
from maze_runtime.rollout.collector import Collector, make_buffer
from maze_runtime.rollout.decision_values import carried_values, critic_kind_of
from maze_runtime.rollout.shared_statistics import Partials, RunStatistics, WorkersStatistics
from maze_runtime.rollout.structured_buffer import Departure, StructuredBuffer
from maze_runtime.workers.lanes import Columns, Lane


@attrs.frozen(kw_only=True)
class ActorPlan:
    """What workers are told; the factory of their actors.

    Attributes:
        make_envs: (n_envs, number of the first one) -> a batch.
        model: on the CPU; its weights come by broadcast.
        bounds: worker i acts for environments bounds[i] … bounds[i + 1] − 1.
        n_steps: of every rollout.
        n_slots: rollouts of a worker, made or in the making, that nobody has used yet.
    """

    make_envs: Callable[[int, int], VectorEnv]
    model: ActorCritic
    bounds: Sequence[int]
    n_steps: int
    n_slots: int

    def __call__(self, context: ActorContext) -> RolloutActor:
        """The actor of one worker."""
        return RolloutActor(self, context)

    def columns(self, worker: int) -> ArrayDict:
        """The arrays of a rollout of one worker."""
        n_envs = self.bounds[worker + 1] - self.bounds[worker]
        return rollout_columns(self.model, self.n_steps, n_envs)


@attrs.frozen(kw_only=True)
class Report:
    """What comes with a rollout.

    Attributes:
        columns: its arrays; None where they lie in shared memory.
        version: of the weights it was made with.
        truncations: final observations of truncated episodes.
        departures: of actors who left with the decision of another one.
        returns, lengths: (E,) of the episodes that ended in it.
        events: event statistics of these episodes.
        partials: what the actor's copies of running statistics saw.
    """

    columns: Columns | None
    version: int
    truncations: Truncations
    departures: Sequence[Departure]
    returns: np.ndarray
    lengths: np.ndarray
    events: Sequence[EpisodeStatistics]
    partials: Partials


class RolloutActor:
    """One worker's environments and policy. Its methods are called by `RolloutQueue`.

    A replacement of an actor that died knows nothing before `begin`; rollouts asked of it until then are None.
    """

    def __init__(self, plan: ActorPlan, context: ActorContext) -> None:
        self._plan = plan
        self._index = context.index
        self._lane = Lane(context.index, context.arrays)
        self._envs: VectorEnv | None = None
        self._has_begun = False
        self._version = 0

    def begin(self, seeds: Sequence[Sequence[int]], policy_seed: int, told: RunStatistics | None) -> None:
        """Start new episodes and a new random stream; builds environments and policy at the first call."""
        if self._envs is None:
            self._envs = self._build()
        self._shared.begin(told)
        self._policy.seed(policy_seed)
        self._collector.reset(seeds)
        self._collector.statistics.take()
        if self._recurrent is not None:
            self._recurrent.begin()
        self._carried = np.zeros(self._envs.n_envs, np.float32)
        self._events()
        self._has_begun = True

    def load_weights(self, flat: np.ndarray, version: int) -> None:
        """Act with these weights from the next rollout on."""
        if self._envs is None:
            self._envs = self._build()
        self._weights.unpack(flat)
        self._version = version

    def collect(self, slot: int, told: RunStatistics | None) -> Report | None:
        """Make a rollout and put it into a slot."""
        if not self._has_begun:
            return None
        self._shared.follow(told)
        self._collector.collect(self._buffer)
        columns = self._lane.put(slot, self._columns_of_rollout())
        returns, lengths = self._collector.statistics.take()
        return Report(
            columns=columns,
            version=self._version,
            truncations=list(self._buffer.truncations),
            departures=list(getattr(self._buffer, "departures", ())),
            returns=returns,
            lengths=lengths,
            events=self._events(),
            partials=self._shared.take(),
        )

    def close(self) -> None:
        """Close the environments."""
        if self._envs is not None:
            self._envs.close()

    def _build(self) -> VectorEnv:
        """Not in the constructor: what an environment raises is final, an actor that cannot be built is tried again."""
        plan = self._plan
        first, last = plan.bounds[self._index], plan.bounds[self._index + 1]
        envs = plan.make_envs(last - first, first)
        self._shared = WorkersStatistics(getattr(envs, "transforms", ()))
        model: Any = copy.deepcopy(plan.model)  # inline, all actors and the learner get the same object
        self._model: ActorCritic = model
        self._weights = SentWeights(model, FlatParameters(model))
        self._policy = model.make_policy(0)
        self._collector = Collector(envs, self._policy)
        self._buffer = make_buffer(envs.structured_spaces, plan.n_steps, envs.n_envs)
        structured = isinstance(self._buffer, StructuredBuffer)
        self._columns = plan.columns(self._index) if structured else self._buffer.columns()
        self._recurrent: RecurrentBehaviour | StructuredBehaviour | None = None
        if carries_state(model):
            size = (plan.n_steps, envs.n_envs)
            self._recurrent = StructuredBehaviour(model, *size) if structured else RecurrentBehaviour(model)
        return envs

    def _columns_of_rollout(self) -> ArrayDict:
        """The arrays of the rollout that was just made; the next one overwrites them."""
        buffer, recurrent = self._buffer, self._recurrent
        if isinstance(buffer, StructuredBuffer):
            return self._structured_columns(buffer)
        if recurrent is None:
            return {**self._columns, LOG_PROB: log_probabilities(buffer, self._model)}
        assert isinstance(recurrent, RecurrentBehaviour)
        return {**self._columns, **recurrent.columns(buffer)}

    def _structured_columns(self, buffer: StructuredBuffer) -> ArrayDict:
        replay = None
        if isinstance(self._recurrent, StructuredBehaviour):
            replay = self._recurrent.replay(buffer)
            columns = {**self._columns, **self._recurrent.columns(buffer, replay)}
        else:
            columns = {**self._columns, LOG_PROB: log_probabilities(buffer, self._model)}
        buffer.copy_by_environment(columns)
        columns[CARRIED] = self._carried
        if critic_kind_of(self._model) == "delta-state":
            # what a delta critic adds to in the next rollout
            value, _ = delta_values(buffer, self._model, self._carried, torch.device("cpu"), replay)
            self._carried = carried_values(buffer, value)
        return columns

    def _events(self) -> list[EpisodeStatistics]:
        source = capability(self._envs, ReportsBatchStatistics)  # type: ignore[type-abstract]
        return [] if source is None else [episode for env in source.drain_batch_statistics() for episode in env]
