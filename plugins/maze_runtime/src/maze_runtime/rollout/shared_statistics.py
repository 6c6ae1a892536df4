"""Running statistics where workers see the steps: each worker's copy learns from its own, and all of them from all.

A worker begins with the statistics of the run, goes on by itself, and answers with what it has seen since: with a
rollout of its own statistics at most it acts on newer numbers than the run knows. The run merges the answers in the
order of the workers, so timing decides nothing where rollouts do not overlap.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError

Partials = list[Any]
"""What a worker has seen: a partial statistic of each transform that keeps running ones, innermost first."""


class RunStatistics(NamedTuple):
    """The statistics of a run at a moment: how often they were merged before it, and states as in `Partials`."""

    version: int
    states: list[dict[str, Any]]


class SharedStatistics:
    """The transforms of a run, which nobody but the workers' answers teaches.

    Args:
        transforms: bound, innermost first.
        owner: who lets workers collect, for messages.
        otherwise: what else can be done where they cannot be shared, for messages.

    Raises:
        RequestError: a transform keeps running statistics that cannot be brought together.
    """

    def __init__(self, transforms: Sequence[Transform], owner: str, otherwise: str) -> None:
        self._transforms = _learning(transforms)
        self._version = 0
        for transform in self._transforms:
            if not can_share(transform):
                kind = type(transform).__name__
                possible = f"write {kind}.take_partial, let the wrapper estimate its statistics before training"
                raise RequestError(
                    f"{kind} keeps running statistics, which several workers cannot share",
                    owner=owner,
                    help=f"{possible}, {otherwise}",
                )

    def now(self) -> RunStatistics | None:
        """What workers are told; None where no transform keeps running statistics."""
        if not self._transforms:
            return None
        return RunStatistics(self._version, [dict(transform.state_dict()) for transform in self._transforms])

    def merge(self, answers: Sequence[Partials]) -> None:
        """Merge what workers have seen, in this order."""
        self._version += 1
        for transform, partials in zip(self._transforms, zip(*answers, strict=True), strict=True):
            transform.finish_estimation(partials)


class WorkersStatistics:
    """A worker's copies of the transforms.

    Args:
        transforms: around the worker's batch and bound, innermost first; those that cannot share are left alone.
        holds: the worker acts on the run's statistics alone; see `Transform.hold`.
    """

    def __init__(self, transforms: Sequence[Transform], *, holds: bool = False) -> None:
        self._transforms = [transform for transform in _learning(transforms) if can_share(transform)]
        self._version = -1
        for transform in self._transforms if holds else ():
            transform.hold()

    def begin(self, told: RunStatistics | None) -> None:
        """Go on from these; what was seen and not yet taken is forgotten."""
        self._version = -1
        self.follow(told)

    def follow(self, told: RunStatistics | None) -> None:
        """Go on from these if they are newer than the last ones: of calls that wait for a worker many tell the same."""
        if told is None or told.version <= self._version:
            return
        self._version = told.version
        for transform, state in zip(self._transforms, told.states, strict=True):
            transform.load_state_dict(state)

    def take(self) -> Partials:
        """What was seen since the last call."""
        return [transform.take_partial() for transform in self._transforms]


def can_share(transform: Transform) -> bool:
    """Whether copies of it can be brought together."""
    return type(transform).take_partial is not Transform.take_partial


def own_copies(transforms: Sequence[Transform]) -> list[Transform]:
    """Copies for one worker: several may live in one process. Those without statistics are no business of anybody."""
    return [copy.deepcopy(own) if own.keeps_running_statistics else own for own in transforms]


def _learning(transforms: Sequence[Transform]) -> list[Transform]:
    return [transform for transform in transforms if transform.keeps_running_statistics]
