"""The searcher: walks the space by asking Optuna, and tells it how trials do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import NopPruner
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from maze_kernel.errors import RequestError
from maze_optuna.leaves import describe_space, is_same, stored_draw, suggest
from maze_optuna.options import OptunaOptions
from maze_optuna.pruning import answer_again, first_length, make_pruner, rungs_of
from maze_optuna.sampling import check_sampler, make_sampler
from maze_optuna.storage import StudyStorage, memory_storage, open_storage, storing
from maze_optuna.study import create_study, reopen_study
from maze_sweeps.contract import PastTrial, SearchContext
from maze_sweeps.space import Draw

_GIVEN_UP = "maze_given_up"
"""Attribute of a trial: after how many steps the pruner gave it up."""
_ANSWERED = "maze_answered_rungs"
"""Attribute of a trial: in how many rungs of successive halving it was told to go on; of others the answer was lost."""
_TRIALS_FOR_IMPORTANCES = 10
_STATES = {"done": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


class OptunaSearcher:
    """Trials of a sweep as trials of an Optuna study, under the same numbers; see `Searcher`.

    Args:
        context: of the sweep.
        options: the `[searcher]` table.

    Raises:
        RequestError: the sampler, the space or the number of trials is nothing that Optuna can work with.
    """

    def __init__(self, context: SearchContext, options: OptunaOptions) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        if context.n_trials < 1:
            raise RequestError(
                "searcher 'optuna' proposes without end, so n_trials must say how many trials to run",
                received=f"n_trials = {context.n_trials}",
                owner="searcher 'optuna'",
                help="write n_trials = 50 at the top of the sweep file",
            )
        describe_space(context.space)
        check_sampler(options, context.space)
        self._context = context
        self._options = options
        self._storage: StudyStorage | None = None
        self._opened: Study | None = None
        self._trials: dict[int, Trial] = {}

    def restore(self, trials: Sequence[PastTrial]) -> None:
        """Open the study again and bring it up to what the sweep knows; see `Searcher`.

        Raises:
            RequestError: the storage holds another study, or trials that are not those of the sweep.
        """
        self._storage = open_storage(self._options.storage, self._context.folder)
        self._opened = reopen_study(self._context, self._storage)
        self._renew_pruner()
        stored = self._study.get_trials(deepcopy=False)
        known = {past.number: past for past in trials}
        n_known = max(known, default=-1) + 1
        for number in range(n_known):
            past = known.get(number)
            with self._storing(number):
                if number >= len(stored):
                    self._add(past)
                elif past is not None:
                    self._check_same(past, stored[number])
                if past is not None:
                    self._catch_up(past)
        if unknown := [trial.number for trial in stored[n_known:] if trial.state.is_finished()]:
            raise RequestError(
                f"{self._storage.shown} has a finished trial {unknown[0]}, which the sweep does not know",
                received=f"{len(stored)} trials in the study",
                expected=f"{len(trials)} trials in {self._context.folder}",
                owner="searcher 'optuna'",
                help="put the folders of the missing trials back, or move the storage away: it is built anew",
            )

    def propose(self, number: int) -> Draw | None:
        """See `Searcher`."""
        if number >= self._context.n_trials:
            return None
        with self._storing(number):
            return self._propose(number)

    def _propose(self, number: int) -> Draw:
        self._renew_pruner()
        self._study.sampler = make_sampler(self._options, self._context.seed, number)
        stored = self._study.get_trials(deepcopy=False)[number : number + 1]
        if stored and stored[0].state.is_finished():  # its folder was removed: it is trained anew, as it was
            return self._context.space.walk(lambda leaf: suggest(stored[0], leaf))
        trial = self._unfinished(number) or self._study.ask()
        if trial.number != number:
            raise RequestError(
                f"the study gave trial {trial.number} where trial {number} of the sweep was to come",
                owner="searcher 'optuna'",
                help="let nothing else add trials to the study of a sweep, and go on by --resume",
            )
        self._trials[number] = trial
        return self._context.space.walk(lambda leaf: suggest(trial, leaf))

    def report(self, number: int, step: int, value: float) -> bool:
        """See `Searcher`. A step that was reported before, ahead of a resume, changes nothing."""
        with self._storing(number):
            return self._report(number, step, value)

    def _report(self, number: int, step: int, value: float) -> bool:
        stored = self._stored(number)
        if stored.state.is_finished():
            return stored.state is TrialState.PRUNED
        if _GIVEN_UP in stored.user_attrs:
            return True
        last = stored.last_step
        if last is not None and step < last:
            return False
        trial = self._trials[number]
        if step not in stored.intermediate_values:
            trial.report(value, step)
        self._renew_pruner()
        n_answered = stored.user_attrs.get(_ANSWERED, 0)
        is_lost = len(rungs_of(stored)) > n_answered
        gives_up = self._lost_answer(trial, n_answered) if is_lost else trial.should_prune()
        if gives_up:
            trial.set_user_attr(_GIVEN_UP, step)
        elif (n_rungs := len(rungs_of(self._stored(number)))) > n_answered:
            trial.set_user_attr(_ANSWERED, n_rungs)
        return gives_up

    def _lost_answer(self, trial: Trial, n_answered: int) -> bool:
        """What the pruner was about to say when the process ended that had told it of the last report."""
        assert self._storage is not None
        gives_up, rungs = answer_again(self._study, trial.number, n_answered)
        for name, value in rungs.items():
            self._storage.backend.set_trial_system_attr(trial._trial_id, name, value)
        return gives_up

    def finish(self, number: int, state: str, value: float | None) -> None:
        """See `Searcher`. A trial whose value is NaN has failed; one that is told a second time stays as it was."""
        with self._storing(number):
            self._finish(number, state, value)

    def _finish(self, number: int, state: str, value: float | None) -> None:
        stored = self._stored(number)
        trial = self._trials.pop(number, None)
        if trial is None or stored.state.is_finished():
            return
        told = _STATES[state]
        known = None if value is None or math.isnan(value) else value
        if told is TrialState.PRUNED and known is not None and not stored.intermediate_values:
            trial.report(known, 0)  # Optuna takes the last report for the value
        if told is TrialState.COMPLETE and known is None:
            told = TrialState.FAIL
        self._study.tell(trial, known if told is TrialState.COMPLETE else None, state=told)

    def importances(self) -> Mapping[str, float]:
        """By PED-ANOVA (Watanabe et al. 2023, arXiv 2304.10255), from 10 finished trials on; see `Searcher`."""
        if self._opened is None:
            return {}
        finished = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(finished) < _TRIALS_FOR_IMPORTANCES or len({trial.value for trial in finished}) == 1:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = optuna.importance.get_param_importances(self._study, normalize=False)
        total = sum(found.values())
        return {name: value / total for name, value in found.items()} if 0 < total < math.inf else {}

    def close(self) -> None:
        """See `Searcher`."""
        if self._storage is not None:
            self._storage.close()

    @property
    def _study(self) -> Study:
        """Created at the first use, unless a resume has opened it; of a dry run nothing is left."""
        if self._opened is None:
            folder = None if self._context.dry_run else self._context.folder
            self._storage = memory_storage() if folder is None else open_storage(self._options.storage, folder)
            self._opened = create_study(self._context, self._storage)
        return self._opened

    def _storing(self, number: int) -> AbstractContextManager[None]:
        return storing(number, self._options.storage, self._context.folder)

    def _renew_pruner(self) -> None:
        """Set the pruner, which may have to wait until a finished trial says how long trials are."""
        if self._options.pruner != "none" and isinstance(self._study.pruner, NopPruner):
            self._study.pruner = make_pruner(self._options, first_length(self._study))

    def _stored(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _unfinished(self, number: int) -> Trial | None:
        """A trial that was begun by a process which ended before anybody heard of it."""
        stored = self._study.get_trials(deepcopy=False)
        if number < len(stored) and stored[number].state is TrialState.RUNNING:
            return Trial(self._study, stored[number]._trial_id)
        return None

    def _check_same(self, past: PastTrial, stored: FrozenTrial) -> None:
        ours, _ = self._as_stored(past)
        names = sorted({*ours, *stored.params})
        if different := [name for name in names if not is_same(stored.params.get(name), ours.get(name))]:
            raise RequestError(
                f"trial {past.number} has other settings in the study than in the sweep: {', '.join(different[:3])}",
                received=f"{different[0]} = {stored.params.get(different[0])!r} in the study",
                expected=f"{different[0]} = {ours.get(different[0])!r}",
                option="storage",
                owner="searcher 'optuna'",
                help="give back the storage of this sweep; without one, move it away: it is built anew from the trials",
            )

    def _add(self, past: PastTrial | None) -> None:
        """A trial that the study has not heard of, as a running one; None: it has no folder, and is proposed again."""
        params, distributions = ({}, {}) if past is None else self._as_stored(past)
        self._study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))

    def _as_stored(self, past: PastTrial) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        try:
            return stored_draw(self._context.space, past.draw)
        except (KeyError, ValueError) as error:
            raise RequestError(
                f"trial {past.number} has settings that the space does not have",
                received=str(dict(past.draw)),
                expected=f"one value for each leaf that applies: {error}",
                owner="searcher 'optuna'",
                help="go on with the sweep file that the sweep began with, or start a new sweep",
            ) from None

    def _catch_up(self, past: PastTrial) -> None:
        """Attach a running trial; report and tell what the study has missed of it."""
        stored = self._stored(past.number)
        if stored.state.is_finished():
            return
        trial = self._trials[past.number] = Trial(self._study, stored._trial_id)
        for step, value in past.reports:
            if step not in stored.intermediate_values:
                trial.report(value, step)
        if past.state != "running":
            self.finish(past.number, past.state, past.value)
