"""Runs that differ in seed and name alone form a group; groups on the same environment can be compared.

A *configuration* is an experiment without seed, name and environment, or the value of `--by KEY`. A *task* is an
environment. A group holds the runs of one configuration on one task; those with which a sweep confirms a trial are a
group of their own, for the trial was chosen by what its other runs came to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_reports.run_state import FINISHED
from maze_reports.runs import RunEntry
from maze_reports.settings import (
    ABSENT,
    Settings,
    differing,
    distinct,
    setting_text,
    settings_hash,
    short_name,
    short_names,
    shown,
)

NO_PART = ("name", "seed")
"""Settings in which the runs of a group may differ."""
TASK = "env"
_MANY = 40
"""Differences shown; a comparison with more says how many there are."""
_FEW_TRIALS = 3
_CONFIRMED = ", confirmed"


@attrs.frozen(kw_only=True, eq=False)
class RunGroup:
    """The runs of one configuration on one task.

    Attributes:
        label: of the configuration, the same on every environment.
        task: the environment.
        key: of the configuration, equal for equal ones; that of runs which confirm it ends with `_CONFIRMED`.
        also_differ: settings in which its runs differ, besides seed and name; only with `--by`.
        repeats: runs that are left out, as they have the settings and the seed of one of its runs.
        trials: numbers of the trials that its runs are of; empty where one is of no sweep.
    """

    label: str
    task: str
    key: str
    runs: tuple[RunEntry, ...]
    also_differ: tuple[str, ...] = ()
    repeats: tuple[RunEntry, ...] = ()
    trials: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Difference:
    """A setting in which groups differ.

    Attributes:
        values: text by group, in their order.
    """

    setting: str
    values: tuple[str, ...]


def group_runs(runs: Sequence[RunEntry], by: str | None = None) -> list[RunGroup]:
    """The groups, in the order of their first runs.

    Args:
        by: a setting such as "trainer.lr" whose value alone decides; "trainer" stands for what it selects.

    Raises:
        RequestError: no run has that setting.
    """
    setting = None if by is None else _setting(by, runs)
    cells: dict[tuple[str, str], list[RunEntry]] = defaultdict(list)
    for run in runs:
        task = settings_hash({path: value for path, value in run.settings.items() if _is_task(path)})
        key = _configuration(run) if setting is None else setting_text(run.settings, setting)
        cells[key, task].append(run)
    tasks = _task_names(cells)
    labels = _labels(cells, setting)
    same = (*NO_PART, *([setting] if setting else ()))
    groups = []
    for (key, task), members in cells.items():
        counted = dict.fromkeys(_without_repeats(members))
        group = RunGroup(
            label=labels[key],
            task=tasks[task],
            key=key,
            runs=tuple(counted),
            also_differ=tuple(differing([run.settings for run in members], same)),
            repeats=tuple(run for run in members if run not in counted),
            trials=_trials(members),
        )
        groups.append(group)
    return groups


def _configuration(run: RunEntry) -> str:
    key = settings_hash(run.settings, (*NO_PART, TASK))
    return f"{key}{_CONFIRMED}" if _place(run)[0] == "confirm" else key


def _without_repeats(runs: Sequence[RunEntry]) -> list[RunEntry]:
    """Of runs with the same settings and the same seed one: a finished one, else the longest, else the first."""
    found: dict[str, RunEntry] = {}
    for run in runs:
        key = str(run.path) if run.seed is None else settings_hash(run.settings, ("name",))
        if key not in found or _progress(run) > _progress(found[key]):
            found[key] = run
    return list(found.values())


def _progress(run: RunEntry) -> tuple[bool, int]:
    return run.state.name in FINISHED, run.n_epochs


def differences(groups: Sequence[RunGroup]) -> tuple[list[Difference], int]:
    """In what the groups differ, at most forty settings, and how many there are; runs of a group may differ, too."""
    settings = [run.settings for group in groups for run in group.runs]
    paths = [path for path in differing(settings, NO_PART) if len({_common(path, group) for group in groups}) > 1]
    found = [Difference(setting=path, values=tuple(_common(path, group) for group in groups)) for path in paths[:_MANY]]
    return found, len(paths)


def _common(path: str, group: RunGroup) -> str:
    values = dict.fromkeys(shown(run.settings.get(path, ABSENT)) for run in group.runs)
    return " | ".join(values)


def _is_task(path: str) -> bool:
    return path == TASK or path.startswith(f"{TASK}.")


def _setting(by: str, runs: Sequence[RunEntry]) -> str:
    known = {path: None for run in runs for path in run.settings}
    for path in (by, f"{by}.use"):
        if path in known:
            return path
    raise RequestError(
        f"no run has a setting {by!r}",
        nearest=nearest(by, known) or tuple(path for path in known if path.endswith(f".{by}"))[:3],
        help="maze show RUN --json shows the experiment; its settings go by dotted paths such as trainer.lr",
    )


def _task_names(cells: Mapping[tuple[str, str], list[RunEntry]]) -> dict[str, str]:
    first = {task: members[0] for (_, task), members in cells.items()}
    names = {task: run.env for task, run in first.items()}
    if len(set(names.values())) == len(names):
        return names
    only_task: list[Settings] = [
        {path: value for path, value in run.settings.items() if _is_task(path)} for run in first.values()
    ]
    details = short_names(only_task)
    return {task: f"{names[task]} ({detail})" for task, detail in zip(first, details, strict=True)}


def _labels(cells: Mapping[tuple[str, str], list[RunEntry]], setting: str | None) -> dict[str, str]:
    members: dict[str, list[RunEntry]] = defaultdict(list)
    for (key, _), runs in cells.items():
        members[key] += runs
    if setting is not None:
        values = [
            {setting: runs[0].settings[setting]} if setting in runs[0].settings else {} for runs in members.values()
        ]
        return dict(zip(members, distinct([short_name(table, [setting]) for table in values]), strict=True))
    names = {key: {run.record.name for run in runs} for key, runs in members.items()}
    alone = {key: next(iter(given)) for key, given in names.items() if len(given) == 1}
    if len(alone) == len(set(alone.values())) == len(members):
        return alone
    return _labels_by_settings(members, with_trials=len({task for _, task in cells}) == 1)


def _labels_by_settings(members: Mapping[str, list[RunEntry]], *, with_trials: bool) -> dict[str, str]:
    """Key to the settings that tell a configuration from the others, after its trials where all are of a sweep.

    Args:
        with_trials: False on several environments: a configuration has other trials on each.
    """
    plain = {key.removesuffix(_CONFIRMED): runs[0] for key, runs in members.items()}
    named = short_names([run.settings for run in plain.values()], (*NO_PART, TASK))
    settings = dict(zip(plain, named, strict=True))
    trials = {key: _trials(runs) for key, runs in members.items()}
    labels = {}
    for key in members:
        confirmed = _CONFIRMED if key.endswith(_CONFIRMED) else ""
        own = settings[key.removesuffix(_CONFIRMED)]
        if with_trials and all(trials.values()):
            labels[key] = f"{_trials_text(trials[key])}{confirmed}{': ' if own else ''}{own}"
        else:
            labels[key] = f"{own or plain[key.removesuffix(_CONFIRMED)].record.name}{confirmed}"
    return labels


def _trials(runs: Sequence[RunEntry]) -> tuple[int, ...]:
    """The trials that runs are of; several where a search tried the same again, none where a run is of no sweep."""
    numbers = {_place(run)[1] for run in runs}
    return () if None in numbers else tuple(sorted(number for number in numbers if number is not None))


def _trials_text(numbers: Sequence[int]) -> str:
    shown = [*map(str, numbers[:_FEW_TRIALS]), *(["…"] if len(numbers) > _FEW_TRIALS else [])]
    return f"trial{'s' if len(numbers) > 1 else ''} {', '.join(shown)}"


def _place(run: RunEntry) -> tuple[str, int | None]:
    """The folder of a sweep that a run lies in, as `trials/0007/` or `confirm/0007/`, and the number of its trial."""
    folder = run.path.absolute().parent
    kind = folder.parent.name
    return (kind, int(folder.name)) if kind in ("trials", "confirm") and folder.name.isdecimal() else ("", None)
