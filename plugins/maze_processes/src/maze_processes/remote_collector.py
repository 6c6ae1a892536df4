"""The workers of a subprocess batch, as a `RemoteCollector` sees them: they keep their environments."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.errors import MazeWarning
from maze_processes import transport
from maze_processes.env_workers import EnvWorkers
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.collector import make_buffer
from maze_runtime.rollout.remote_collector import RemoteCollector
from maze_runtime.rollout.rollout_host import SliceRollout
from maze_runtime.rollout.shared_statistics import RunStatistics, SharedStatistics, can_share
from maze_runtime.workers.lanes import Columns, Lanes, lane_specs

_PREPARE_SECONDS = 120.0
"""Importing torch in a worker may take longer than a step is allowed to."""


def remote_collector(
    workers: EnvWorkers, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
) -> RemoteCollector | None:
    """A collector that lets the workers collect, where nothing needs to see whole steps; see `CollectsRollouts`.

    That is: environments in two processes or more that are not replaced when they die, transforms whose running
    statistics can be shared, a policy that samples from the distributions of a model in NumPy.
    """
    transforms = list(getattr(vector_env, "transforms", ()))
    if (
        not workers.can_collect_alone
        or not isinstance(policy, SamplesDistributions)
        or not policy.is_mirrored
        or any(own.keeps_running_statistics and not can_share(own) for own in transforms)
    ):
        return None
    try:
        model = transport.encode_factory(policy.model)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        what = f"the model cannot be sent to the processes of the environments ({reason}),"
        warnings.warn(f"{what} so that this process decides each step of theirs", MazeWarning, stacklevel=2)
        return None
    rollouts = HostedRollouts(workers, vector_env, model, transforms, n_steps)
    statistics = SharedStatistics(transforms, "maze-processes", "or choose another mode")
    return RemoteCollector(rollouts, vector_env.structured_spaces.policy_keys[0], policy, parameters, statistics)


class HostedRollouts:
    """Implements `RolloutWorkers` on the environments of a batch.

    Args:
        workers: collect from now on.
        vector_env: the batch inside its transforms.
        model: encoded.
        transforms: innermost first.
        n_steps: of every rollout.
    """

    def __init__(
        self, workers: EnvWorkers, vector_env: VectorEnv, model: bytes, transforms: Sequence[Transform], n_steps: int
    ) -> None:
        self.bounds = workers.bounds
        self.restarted: list[int] = []
        self._workers = workers
        self._transforms = transforms
        self._version = 0
        if workers.shares_memory:
            sizes = [last - first for first, last in itertools.pairwise(workers.bounds)]
            columns = [make_buffer(vector_env.structured_spaces, n_steps, size).columns() for size in sizes]
            workers.group.share(lane_specs(columns, n_slots=1))
        self._lanes = Lanes(len(workers), workers.group.arrays)
        plan = [(model, n_steps)] * len(workers)
        workers.ask("prepare_rollouts", plan, timeout_seconds=_PREPARE_SECONDS)

    def begin_rollouts(
        self, seeds: Sequence[Sequence[int]], policy_seeds: Sequence[int], told: RunStatistics | None
    ) -> None:
        """See `RolloutWorkers`; the transforms travel as they are now."""
        slices = [seeds[first:last] for first, last in itertools.pairwise(self.bounds)]
        transforms = transport.encode_factory(self._transforms)
        self._workers.ask(
            "begin_rollouts", [(transforms, own, seed, told) for own, seed in zip(slices, policy_seeds, strict=True)]
        )

    def collect_rollouts(
        self, flat: np.ndarray, told: RunStatistics | None, *, at_random: bool
    ) -> Iterator[tuple[SliceRollout, Columns]]:
        """See `RolloutWorkers`."""
        self._version += 1
        self._workers.group.broadcast(flat, self._version)
        for worker, rollout in enumerate(self._workers.ask_until_answered("collect", at_random, told)):
            yield rollout, self._lanes.read(worker, 0, rollout.columns)
