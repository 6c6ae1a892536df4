"""The actor of the vector mode "workers": builds a slice of the environments and collects rollouts of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import torch

from maze_kernel.contracts.env import StructuredEnv
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.workers import ActorContext
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.rollout_host import RolloutHost, SliceRollout
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.shared_statistics import RunStatistics
from maze_runtime.workers.lanes import Lane


@attrs.frozen(kw_only=True)
class CollectingPlan:
    """What the workers are told; the factory of their actors.

    Attributes:
        make_env: one environment, without transforms.
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.
        first_index: number of the first environment of all in messages.
        transforms: around each slice, innermost first, with the statistics of the run.
        model: on the CPU; its weights come by broadcast.
        parameter_names: those that are broadcast, in order.
        n_steps: of every rollout.
        call_seconds: see `RolloutHost`.
    """

    make_env: Callable[[], StructuredEnv]
    bounds: list[int]
    first_index: int
    transforms: Sequence[Transform]
    model: ActorCritic
    parameter_names: Sequence[str]
    n_steps: int
    call_seconds: float

    def __call__(self, context: ActorContext) -> CollectingActor:
        """The actor of one worker."""
        return CollectingActor(self, context)


class CollectingActor:
    """One worker's environments and policy. Its methods are called by `PooledRollouts`.

    A replacement of an actor that died knows nothing before `begin`; until then its rollouts are None.
    """

    def __init__(self, plan: CollectingPlan, context: ActorContext) -> None:
        self._plan = plan
        self._index = context.index
        self._lane = Lane(context.index, context.arrays)
        self._envs: SequentialVectorEnv | None = None
        self._has_begun = False

    def begin(self, seeds: Sequence[Sequence[int]], policy_seed: int, told: RunStatistics | None) -> None:
        """Start new episodes and a new random stream; builds environments and policy at the first call."""
        self._built().begin(self._plan.transforms, seeds, policy_seed, told)
        self._has_begun = True

    def load_weights(self, flat: np.ndarray, _version: int) -> None:
        """Act with these weights from now on."""
        self._built().load_weights(flat)

    def collect(self, at_random: bool, told: RunStatistics | None = None) -> SliceRollout | None:
        """Go on with the rollout; see `RolloutHost.collect`."""
        return self._host.collect(at_random, told) if self._has_begun else None

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of the slice and of its transforms."""
        return self._host.drain_batch_statistics() if self._has_begun else []

    def close(self) -> None:
        """Close the environments."""
        if self._envs is not None:
            self._envs.close()

    def _built(self) -> RolloutHost:
        """Not in the constructor: what an environment raises is final, an actor that cannot be built is tried again."""
        if self._envs is None:
            plan = self._plan
            first, last = plan.bounds[self._index], plan.bounds[self._index + 1]
            envs = SequentialVectorEnv([plan.make_env] * (last - first), first_index=plan.first_index + first)
            model: Any = copy.deepcopy(plan.model)  # inline, all actors and the learner get the same object
            named = dict(model.named_parameters())
            flat = FlatParameters(torch.nn.ParameterList([named[name] for name in plan.parameter_names]))
            self._host = RolloutHost(model, flat, envs, plan.n_steps, self._lane, plan.call_seconds)
            self._envs = envs
        return self._host
