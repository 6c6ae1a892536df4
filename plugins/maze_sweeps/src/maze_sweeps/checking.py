"""Before a trial starts: every value of every leaf in every branch fits the experiment, and the metric can be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from maze_kernel.config.origin import show_path
from maze_kernel.config.positions import KeyPath, split_key
from maze_kernel.config.problems import Problems
from maze_kernel.errors import RequestError
from maze_runtime.run.evaluators import evaluators_of
from maze_runtime.training.metric import Metric
from maze_sweeps.base_experiment import BaseExperiment
from maze_sweeps.items import path_text
from maze_sweeps.space import Branch, Choice, Draw, Leaf, Values
from maze_sweeps.space_reading import Assignment, SpaceText, with_indices


def check_space(space: SpaceText, base: BaseExperiment, problems: Problems) -> None:
    """Record what the loader refuses of each value, the others being the first ones; of a range, of its ends."""
    check_draws(space, base, problems, _probes(space))


def check_draws(space: SpaceText, base: BaseExperiment, problems: Problems, draws: Iterable[Draw]) -> None:
    """Record what the loader refuses of some draws, each problem once."""
    found: dict[Any, RequestError] = {}
    for draw in draws:
        for error in base.problems(space.space.settings(draw), _spots(space, draw), space.origin):
            found.setdefault((error.what, error.location), error)
    for error in sorted(found.values(), key=lambda error: _place(error, space)):
        problems.add_error(("space",), error)


def check_conflicts(space: SpaceText, base: BaseExperiment, problems: Problems) -> None:
    """Record what would have no effect, because something that applies together with it, and after it, replaces it."""
    for index, later in enumerate(space.assignments):
        for earlier in space.assignments[:index]:
            if _apply_together(earlier, later) and _collide(earlier, later):
                place = space.origin.key(earlier.at)
                problems.add(
                    later.at,
                    f"{path_text(later.path)} is set in two places",
                    received=f"also line {place.line}, column {place.column}: {show_path(earlier.at)}",
                    expected="each setting in one place of what applies together",
                    help="keep one of them; below choices, put it into the branches where it applies",
                )
                break
    for item in base.shared:
        _check_shared(item, space, base, problems)


def _apply_together(one: Assignment, other: Assignment) -> bool:
    return all(other.branches.get(name, label) == label for name, label in one.branches.items())


def _collide(earlier: Assignment, later: Assignment) -> bool:
    """Whether they are one setting or one lies in the other, unless the later one changes a part of a table."""
    n_shared = min(len(earlier.path), len(later.path))
    return earlier.path[:n_shared] == later.path[:n_shared] and not (
        earlier.is_filled and len(later.path) > len(earlier.path)
    )


def _check_shared(item: str, space: SpaceText, base: BaseExperiment, problems: Problems) -> None:
    """Refuse an override of all trials that each of them replaces."""
    name = item.partition("=")[0].strip()
    try:
        path = with_indices(split_key(name), base.data)
    except ValueError:
        return  # a key with = in quotes
    at = _replaced_at(path, space.space.leaves, space, base)
    if at is not None:
        problems.add(
            at,
            f"{name} is set for all trials, and each trial sets it anew",
            received=f"--set {item}",
            expected="an override of what the space does not choose",
            help="leave --set out, or take it out of the space",
        )


def _replaced_at(
    path: tuple[str, ...], leaves: Iterable[Leaf], space: SpaceText, base: BaseExperiment
) -> KeyPath | None:
    """Where leaves set a path, or a table around it, whatever is chosen; None where it may stay as it is."""

    def sets(key: str) -> bool:
        above = with_indices(split_key(key), base.data)
        return path[: len(above)] == above

    def place_in(choice: Choice, branch: Branch) -> KeyPath | None:
        own = (space.settings[choice.name, branch.label, key] for key in branch.settings if sets(key))
        return next(own, None) or _replaced_at(path, branch.leaves, space, base)

    for leaf in leaves:
        if not isinstance(leaf, Choice):
            places = [space.leaves[leaf.name] if sets(leaf.path) else None]
        else:
            places = [place_in(leaf, branch) for branch in leaf.branches]
        if None not in places:
            return places[0]
    return None


def _place(error: RequestError, space: SpaceText) -> tuple[bool, int, int]:
    """As they stand in the sweep file; what is wrong elsewhere comes after that."""
    at = error.location
    if at is None:
        return True, 0, 0
    return at.file != space.origin.file, at.line or 0, at.column or 0


def check_metric(metric: Metric, at: KeyPath, base: BaseExperiment, problems: Problems) -> None:
    """Record a metric that no evaluation can report, as far as that is known before there is one.

    Args:
        at: where it is named.
    """
    try:
        metric.check_name()
    except RequestError as error:
        error.location = problems.origin.value(at)
        error.received = None
        problems.add_error(at, error)
        return
    if evaluators_of(base.loaded.experiment)[metric.evaluator].n_episodes == 0 and not metric.of_training:
        problems.add(
            at,
            f"no evaluation reports {metric.tag}: the experiment evaluates no episodes",
            at_value=True,
            received="[evaluation] n_episodes = 0",
            help=f'evaluate some, or take a statistic of training: metric = "train_{metric.tag}"',
        )


def _probes(space: SpaceText) -> Iterator[Draw]:
    """For each value of each leaf a draw that has it."""
    for leaf, around in _with_branches(space.space.leaves, {}):
        for value in _values(leaf):
            chosen = {**around, leaf.name: value}
            yield space.space.walk(lambda other, chosen=chosen: chosen.get(other.name, _values(other)[0]))  # type: ignore[misc]


def _with_branches(leaves: Iterable[Leaf], around: Mapping[str, str]) -> Iterator[tuple[Leaf, Mapping[str, str]]]:
    """Every leaf, with the labels of the choices that it needs."""
    for leaf in leaves:
        yield leaf, around
        for branch in leaf.branches if isinstance(leaf, Choice) else ():
            yield from _with_branches(branch.leaves, {**around, leaf.name: branch.label})


def _values(leaf: Leaf) -> tuple[Any, ...]:
    if isinstance(leaf, Choice):
        return tuple(branch.label for branch in leaf.branches)
    return leaf.values if isinstance(leaf, Values) else (leaf.low, leaf.high)


def _spots(space: SpaceText, draw: Draw) -> dict[str, tuple[KeyPath, KeyPath]]:
    """Path of each setting to where it and its value stand."""
    spots: dict[str, tuple[KeyPath, KeyPath]] = {}
    for leaf in space.space.reached(draw):
        value = draw[leaf.name]
        if isinstance(leaf, Choice):
            for path in leaf.branch(value).settings:
                at = space.settings[leaf.name, value, path]
                spots[path] = (at, at)
        else:
            spots[leaf.path] = (space.leaves[leaf.name], space.place(leaf, value))
    return spots
