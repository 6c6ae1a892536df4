"""Samplers. Each proposal has a new one, seeded from the seed of the sweep and the number of the trial.

So what is proposed follows from the seed, the number and the study alone: a sweep that goes on proposes what it would
have proposed undisturbed, and trial 0 never again. What a sampler has to remember it keeps in the study.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
from optuna import samplers
from optuna.exceptions import ExperimentalWarning
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from maze_kernel.errors import RequestError
from maze_optuna.options import OptunaOptions
from maze_sweeps.space import Choice, Range, Space

_NEEDS = {"cma-es": ("cmaes",), "gp": ("scipy", "torch"), "qmc": ("scipy",)}
_STARTUP_TRIALS = 10
_POPULATION = 20


def check_sampler(options: OptunaOptions, space: Space) -> None:
    """Refuse a sampler that cannot work here.

    Raises:
        RequestError: it needs a package that is not installed, or the space has nothing that it could choose.
    """
    missing = [name for name in _NEEDS.get(options.sampler, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            f"sampler '{options.sampler}' needs {' and '.join(missing)}, which is not installed",
            option="sampler",
            owner="searcher 'optuna'",
            help=f'pip install "maze-optuna[{options.sampler}]"',
        )
    if options.sampler == "cma-es" and not any(isinstance(leaf, Range) for leaf in space.leaves):
        kinds = sorted({"choices" if isinstance(leaf, Choice) else "values" for leaf in space.leaves})
        raise RequestError(
            "sampler 'cma-es' chooses numbers between low and high that every trial has, and this space has none",
            option="sampler",
            received=f"leaves with {' and '.join(kinds)}" if kinds else "no leaves",
            owner="searcher 'optuna'",
            help='take sampler = "tpe"',
        )


def make_sampler(options: OptunaOptions, seed: int, number: int) -> samplers.BaseSampler:
    """The sampler that proposes one trial.

    Args:
        options: which one.
        seed: of the sweep.
        number: of the trial.
    """
    own = int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) >> 1
    n_startup = options.n_startup_trials
    n_startup = _STARTUP_TRIALS if n_startup is None else n_startup
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match options.sampler:
            case "tpe":
                return samplers.TPESampler(
                    n_startup_trials=n_startup, multivariate=True, group=True, constant_liar=True, seed=own
                )
            case "gp":
                return samplers.GPSampler(n_startup_trials=n_startup, seed=own, warn_independent_sampling=False)
            case "cma-es":
                return ReplayedCmaEsSampler(
                    n_startup_trials=max(1, options.n_startup_trials or 1),
                    popsize=options.population_size,
                    seed=own,
                    warn_independent_sampling=False,
                )
            case "qmc":
                return samplers.QMCSampler(
                    scramble=True,
                    seed=int(np.random.SeedSequence(seed).generate_state(1)[0]) >> 1,  # of the one sequence of all
                    independent_sampler=samplers.RandomSampler(seed=own),
                    warn_independent_sampling=False,
                )
            case "nsga2":
                return samplers.NSGAIISampler(population_size=options.population_size or _POPULATION, seed=own)
            case _:
                return samplers.RandomSampler(seed=own)


class ReplayedCmaEsSampler(samplers.CmaEsSampler):
    """CMA-ES whose mean and covariance are computed anew from the finished trials of each generation.

    Optuna's own stores its optimizer as a pickle in the study and loads it from there. The optimizer follows from what
    it was told, so it is told again instead; a generation is the first of its trials that finished.
    """

    _finished: list[FrozenTrial]

    def _restore_optimizer(self, completed_trials: list[FrozenTrial]) -> None:
        self._finished = sorted(completed_trials, key=lambda trial: (trial.datetime_complete, trial.number))

    def _init_optimizer(self, trans: Any, direction: StudyDirection) -> Any:
        optimizer = super()._init_optimizer(trans, direction)
        sign = 1.0 if direction == StudyDirection.MINIMIZE else -1.0
        while True:
            generation = self._get_solution_trials(self._finished, optimizer.generation)[: optimizer.population_size]
            if len(generation) < optimizer.population_size:
                return optimizer
            optimizer.tell([(trans.transform(trial.params), sign * (trial.value or 0.0)) for trial in generation])
