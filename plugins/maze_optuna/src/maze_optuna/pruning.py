"""Pruners: which trials are given up. Steps are environment steps everywhere, or epochs where trainers take none."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from optuna import create_study, pruners
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from maze_optuna.options import OptunaOptions

_UNPRUNED_TRIALS = 5
_REDUCTION_FACTOR = 3
_RESOURCES = 100
"""A trial is this many times as long as the least that successive halving looks at."""
_RUNG = "completed_rung_"
"""How Optuna begins the name of the attribute that says with which value a trial took part in a rung."""


class CurveMedianPruner(pruners.BasePruner):
    """Gives up a trial whose best value so far is worse than the median of the finished ones after as many steps.

    Optuna's own compares reports at the very same step. Trials of a sweep evaluate where their rollouts end, which
    differs with `n_envs` and `n_rollout_steps`; so the last report up to a step stands for a finished trial.

    Args:
        n_unpruned_trials: finished trials before the first one is given up.
        n_warmup_steps: steps of a trial before it is given up.
    """

    def __init__(self, n_unpruned_trials: int, n_warmup_steps: int) -> None:
        self._n_unpruned_trials = n_unpruned_trials
        self._n_warmup_steps = n_warmup_steps

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether to give a trial up after its newest report; called by Optuna."""
        step = trial.last_step
        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if step is None or step < self._n_warmup_steps or len(finished) < self._n_unpruned_trials:
            return False
        sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
        known = [sign * value for value in trial.intermediate_values.values() if not math.isnan(value)]
        others = [sign * value for other in finished if not math.isnan(value := _value_at(other, step))]
        if not others:
            return False
        return not known or max(known) < float(np.median(others))


def _value_at(trial: FrozenTrial, step: int) -> float:
    """The last report up to a step; NaN where there is none."""
    reports: Mapping[int, float] = trial.intermediate_values
    return reports[max(earlier)] if (earlier := [reported for reported in reports if reported <= step]) else math.nan


def make_pruner(options: OptunaOptions, n_steps: int | None) -> pruners.BasePruner:
    """The pruner; one that needs to know how long trials are gives none up until then.

    Args:
        options: which one.
        n_steps: how long trials are; None: not known yet.
    """
    if options.pruner == "median":
        return CurveMedianPruner(options.n_unpruned_trials or _UNPRUNED_TRIALS, options.n_warmup_steps or 0)
    factor = options.reduction_factor or _REDUCTION_FACTOR
    first = options.min_resource or (None if n_steps is None else max(1, n_steps // _RESOURCES))
    if options.pruner == "successive-halving" and first is not None:
        return pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
    if options.pruner == "hyperband" and first is not None and n_steps is not None:
        longest = max(n_steps, first)
        return pruners.HyperbandPruner(min_resource=first, max_resource=longest, reduction_factor=factor)
    return pruners.NopPruner()


def rungs_of(trial: FrozenTrial) -> dict[str, float]:
    """The values with which a trial has taken part in rungs of successive halving, by Optuna's attribute for each."""
    return {name: value for name, value in trial.system_attrs.items() if name.startswith(_RUNG)}


def answer_again(study: Study, number: int, n_rungs: int) -> tuple[bool, dict[str, float]]:
    """Whether the pruner gives a trial up after its last report, and the rungs in which it has taken part by then.

    Optuna stores that a trial takes part in a rung before it answers, and never asks about that rung again. So a copy
    of the study is asked, in which the trial has taken part in its first rungs alone.

    Args:
        n_rungs: those whose answers are known.
    """
    trials = study.get_trials()
    own = trials[number]
    known = {f"{_RUNG}{rung}" for rung in range(n_rungs)}
    own.system_attrs = {n: v for n, v in own.system_attrs.items() if n in known or not n.startswith(_RUNG)}
    copy = create_study(study_name=study.study_name, direction=study.direction, pruner=study.pruner)
    copy.add_trials(trials)
    gives_up = copy.pruner.prune(copy, copy.get_trials()[number])
    return gives_up, rungs_of(copy.get_trials()[number])


def first_length(study: Study) -> int | None:
    """Steps of the trial that finished first; None: none has finished with a report.

    The first one, so that brackets stay the same whenever they are asked for.
    """
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    reported = [trial for trial in finished if trial.last_step is not None and trial.datetime_complete is not None]
    if not reported:
        return None
    return min(reported, key=lambda trial: (trial.datetime_complete, trial.number)).last_step
