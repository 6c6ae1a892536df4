"""How probably the runs of one group are better than those of another, for every pair of groups."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import attrs
import numpy as np

from maze_runtime.series.bootstrap import (
    ConfidenceInterval,
    improvement_interval,
    interquartile_mean,
    probability_of_improvement,
)

_MAX_COMPARED = 8
"""Of more groups on an environment only the best ones are compared in pairs."""


@attrs.frozen(kw_only=True)
class Improvement:
    """How probably a run of one group is better than a run of another.

    Attributes:
        task: the environment; "" where all are put together.
        n, n_other: runs with a score, of the environment with the fewest.
    """

    label: str
    other: str
    task: str
    probability: float
    interval: ConfidenceInterval | None
    n: int
    n_other: int


def improvements_on(task: str, scores: Mapping[str, np.ndarray], minimize: bool) -> list[Improvement]:
    """The pairs of groups on one environment.

    Args:
        task: the environment.
        scores: label to (n,).
        minimize: less is better.
    """
    signed = {label: [-own if minimize else own] for label, own in scores.items()}
    best = sorted(signed, key=lambda label: -float(interquartile_mean(signed[label][0])))[:_MAX_COMPARED]
    return improvements(task, {label: own for label, own in signed.items() if label in best})


def improvements(task: str, scores: Mapping[str, list[np.ndarray]]) -> list[Improvement]:
    """The pairs of groups, of each the probably better one first.

    Args:
        task: see `Improvement`.
        scores: label to (n,) for each environment; more is better.
    """
    return [_improvement(task, pair, scores) for pair in combinations(scores, 2)]


def _improvement(task: str, pair: tuple[str, str], scores: Mapping[str, list[np.ndarray]]) -> Improvement:
    """The group that is probably better comes first."""
    label, other = pair
    if probability_of_improvement(scores[label], scores[other]) < 0.5:
        label, other = other, label
    return Improvement(
        label=label,
        other=other,
        task=task,
        probability=probability_of_improvement(scores[label], scores[other]),
        interval=improvement_interval(scores[label], scores[other]),
        n=min(map(len, scores[label])),
        n_other=min(map(len, scores[other])),
    )
