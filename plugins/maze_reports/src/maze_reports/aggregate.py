"""Several environments put together: scores normalised by given references, never by what the runs reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from maze_runtime.series.bootstrap import (
    ConfidenceInterval,
    bootstrap_interval,
    interquartile_mean,
    mean,
    performance_profile,
)

N_THRESHOLDS = 81


@attrs.frozen(kw_only=True, eq=False)
class Aggregate:
    """One configuration over all environments.

    Attributes:
        n: runs with a score, by environment.
        thresholds: (K,) normalised scores.
        profile: (K,) share of runs above each.
    """

    label: str
    n: Mapping[str, int]
    iqm: float
    mean: float
    iqm_interval: ConfidenceInterval | None
    mean_interval: ConfidenceInterval | None
    thresholds: np.ndarray
    profile: np.ndarray


def aggregates(
    by_task: Mapping[str, Mapping[str, np.ndarray]],
    references: Mapping[str, tuple[float, float]],
) -> list[Aggregate]:
    """Each configuration that has runs on every environment; none unless each of several has its references.

    Args:
        by_task: environment to configuration to scores (n,).
        references: environment to the scores that become 0 and 1; where less is better the second is the smaller one.
    """
    if len(by_task) < 2 or set(references) != set(by_task):
        return []
    scores = normalized(by_task, references)
    every = np.concatenate([task for tasks in scores.values() for task in tasks]) if scores else np.zeros(1)
    thresholds = np.linspace(min(0.0, float(every.min())), max(1.0, float(every.max())), N_THRESHOLDS)
    return [_aggregate(label, tasks, list(by_task), thresholds) for label, tasks in scores.items()]


def normalized(
    by_task: Mapping[str, Mapping[str, np.ndarray]], references: Mapping[str, tuple[float, float]]
) -> dict[str, list[np.ndarray]]:
    """Configuration to its scores on each environment, 0 and 1 at the references; only those that ran on all."""
    labels = [label for label in next(iter(by_task.values())) if all(label in scores for scores in by_task.values())]
    return {label: [_scaled(scores[label], references[task]) for task, scores in by_task.items()] for label in labels}


def _scaled(scores: np.ndarray, reference: tuple[float, float]) -> np.ndarray:
    low, high = reference
    return (scores - low) / (high - low)


def _aggregate(label: str, scores: Sequence[np.ndarray], tasks: Sequence[str], thresholds: np.ndarray) -> Aggregate:
    every = np.concatenate(scores)
    return Aggregate(
        label=label,
        n={task: len(own) for task, own in zip(tasks, scores, strict=True)},
        iqm=float(interquartile_mean(every)),
        mean=float(every.mean()),
        iqm_interval=bootstrap_interval(scores, interquartile_mean),
        mean_interval=bootstrap_interval(scores, mean),
        thresholds=thresholds,
        profile=performance_profile(scores, thresholds),
    )
