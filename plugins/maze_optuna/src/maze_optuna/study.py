"""The study of a sweep: created, or found again and checked. Its sampler and pruner are those of the searcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import NopPruner
from optuna.study import Study, StudyDirection

from maze_kernel.config.description import inline_toml
from maze_kernel.errors import RequestError
from maze_optuna.leaves import describe_space
from maze_optuna.storage import StudyStorage
from maze_sweeps.contract import SearchContext

SPACE = "maze_space"
"""Attribute of a study: leaf name to its distribution."""


def study_name(context: SearchContext, storage: StudyStorage) -> str:
    """The name of the sweep; in a database of many sweeps with its folder, which no other one has."""
    return context.name if storage.is_own else f"{context.name}/{context.folder.name}"


def create_study(context: SearchContext, storage: StudyStorage) -> Study:
    """A new study.

    Raises:
        RequestError: the storage has a study already.
    """
    name = study_name(context, storage)
    others = optuna.get_all_study_names(storage.backend) if storage.is_own else []
    if others:
        raise _refused(storage, "holds a study already", received=f"study '{others[0]}'", help=_GO_ON)
    try:
        study = optuna.create_study(
            study_name=name,
            storage=storage.backend,
            direction="maximize" if context.maximize else "minimize",
            pruner=NopPruner(),
        )
    except DuplicatedStudyError:
        raise _refused(storage, "holds a study of this name already", received=f"study '{name}'", help=_GO_ON) from None
    study.set_user_attr(SPACE, describe_space(context.space))
    return study


_GO_ON = "go on with the sweep by --resume, or start in a folder of its own"
_MOVE_AWAY = "give back the storage of this sweep; without one, move it away: it is built anew from the trials"


def reopen_study(context: SearchContext, storage: StudyStorage) -> Study:
    """The study of a sweep that goes on; a new one if the storage is empty.

    Raises:
        RequestError: the storage holds the study of something else.
    """
    name = study_name(context, storage)
    names = optuna.get_all_study_names(storage.backend)
    if name not in names:
        if names and storage.is_own:
            raise _refused(
                storage, "holds another study", received=f"study '{names[0]}'", expected=f"study '{name}'",
                help=_MOVE_AWAY,
            )  # fmt: skip
        return create_study(context, storage)
    study = optuna.load_study(study_name=name, storage=storage.backend, pruner=NopPruner())
    wanted = StudyDirection.MAXIMIZE if context.maximize else StudyDirection.MINIMIZE
    if study.directions != [wanted]:
        raise _refused(
            storage,
            f"holds study '{name}', which has another direction",
            received=", ".join(direction.name.lower() for direction in study.directions),
            expected=wanted.name.lower(),
            help=_MOVE_AWAY,
        )
    _check_space(context, storage, study)
    return study


def _check_space(context: SearchContext, storage: StudyStorage, study: Study) -> None:
    ours, theirs = describe_space(context.space), study.user_attrs.get(SPACE)
    if theirs is None and not study.get_trials(deepcopy=False):  # killed between the creation and this
        study.set_user_attr(SPACE, ours)
        return
    if theirs == ours:
        return
    theirs = theirs if isinstance(theirs, Mapping) else {}
    different = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    raise _refused(
        storage,
        f"holds study '{study.study_name}', which has another space: {', '.join(different[:3])}",
        received=_shown(theirs.get(different[0])),
        expected=_shown(ours.get(different[0])),
        help="go on with the sweep file that the sweep began with, or start a new sweep",
    )


def _shown(distribution: Mapping[str, Any] | None) -> str:
    """A distribution as in messages: `low = 0.1, high = 1.0, log = true`."""
    if distribution is None:
        return "no such leaf"
    told = {key: value for key, value in distribution["attributes"].items() if value is not None and value is not False}
    return ", ".join(f"{key} = {inline_toml(value)}" for key, value in told.items())


def _refused(storage: StudyStorage, what: str, **details: Any) -> RequestError:
    return RequestError(f"{storage.shown} {what}", option="storage", owner="searcher 'optuna'", **details)
