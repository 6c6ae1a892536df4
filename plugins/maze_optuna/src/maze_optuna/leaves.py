"""Leaves of a space as Optuna's distributions, and their values as what Optuna stores.

Optuna stores numbers, texts and booleans. A leaf whose values are lists or tables is stored as TOML text; so is one of
whose values two are equal for Python, `1` and `true`. A choice is stored as the label of its branch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.trial import FrozenTrial

from maze_kernel.config.description import inline_toml
from maze_kernel.errors import RequestError
from maze_sweeps.space import Choice, Draw, Leaf, Range, Space, Values

_SCALARS = (bool, int, float, str)


def all_leaves(leaves: Sequence[Leaf]) -> Iterator[Leaf]:
    """Those of all branches."""
    for leaf in leaves:
        yield leaf
        if isinstance(leaf, Choice):
            for branch in leaf.branches:
                yield from all_leaves(branch.leaves)


def distribution_of(leaf: Leaf) -> BaseDistribution:
    """What Optuna may choose for a leaf.

    Raises:
        RequestError: Optuna has no such distribution.
    """
    if isinstance(leaf, Range):
        return _numbers(leaf)
    return CategoricalDistribution(_stored_values(leaf))


def describe_space(space: Space) -> dict[str, Any]:
    """Leaf name to its distribution as plain data; two spaces with the same description share their trials."""
    leaves = all_leaves(space.leaves)
    return {leaf.name: json.loads(distribution_to_json(distribution_of(leaf))) for leaf in leaves}


def suggest(trial: Trial | FrozenTrial, leaf: Leaf) -> Any:
    """The value that Optuna chooses for a leaf, or has chosen, as the experiment takes it."""
    if not isinstance(leaf, Range):
        return _original(leaf, trial.suggest_categorical(leaf.name, _stored_values(leaf)))
    numbers = _numbers(leaf)
    if isinstance(numbers, IntDistribution):
        return trial.suggest_int(leaf.name, numbers.low, numbers.high, step=numbers.step, log=numbers.log)
    value = trial.suggest_float(leaf.name, numbers.low, numbers.high, step=numbers.step, log=numbers.log)
    return value if leaf.step is None else _step(leaf.low, value, leaf.step, round, float)


def is_same(stored: Any, other: Any) -> bool:
    """Whether two stored values are one: Optuna's steps of 0.1 are 0.30000000000000004, ours 0.3."""
    if isinstance(stored, float) and isinstance(other, (float, int)):
        return math.isclose(stored, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(stored == other)


def stored_draw(space: Space, draw: Draw) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    """A draw as Optuna stores it, and the distribution of each leaf in it.

    Raises:
        KeyError: the draw has no value for a leaf that applies.
        ValueError: a value that the space does not have.
    """
    distributions: dict[str, BaseDistribution] = {}
    stored: dict[str, Any] = {}

    def take(leaf: Leaf) -> Any:
        distribution = distribution_of(leaf)
        stored[leaf.name] = draw[leaf.name] if isinstance(leaf, Range) else _stored(leaf, draw[leaf.name])
        if not distribution._contains(distribution.to_internal_repr(stored[leaf.name])):
            raise ValueError(f"{leaf.name} = {draw[leaf.name]!r} is out of {distribution}")
        distributions[leaf.name] = distribution
        return draw[leaf.name]

    space.walk(take)
    return stored, distributions


def _stored_values(leaf: Values | Choice) -> list[Any]:
    if isinstance(leaf, Choice):
        return [branch.label for branch in leaf.branches]
    as_they_are = all(type(value) in _SCALARS and value == value for value in leaf.values)
    if as_they_are and len(set(leaf.values)) == len(leaf.values):
        return list(leaf.values)
    return [inline_toml(value) for value in leaf.values]


def _stored(leaf: Values | Choice, value: Any) -> Any:
    """Text, where the leaf is stored as text; a value that went through a file has lists for tuples."""
    stored = _stored_values(leaf)
    if isinstance(leaf, Choice) or value in stored:
        return value
    return inline_toml(value)


def _original(leaf: Values | Choice, stored: Any) -> Any:
    return stored if isinstance(leaf, Choice) else leaf.values[_stored_values(leaf).index(stored)]


def _numbers(leaf: Range) -> IntDistribution | FloatDistribution:
    if leaf.log and leaf.step is not None and not (leaf.is_integer and leaf.step == 1):
        raise RequestError(
            f"{leaf.name} is a logarithmic range with a step, and Optuna has no such thing",
            received=f"low = {leaf.low}, high = {leaf.high}, log = true, step = {leaf.step}",
            owner="searcher 'optuna'",
            help="leave out step, or write the numbers as values = [...]",
        )
    if leaf.is_integer:
        step = int(leaf.step or 1)
        return IntDistribution(
            int(leaf.low), _step(leaf.low, leaf.high, step, math.floor, int), log=leaf.log, step=step
        )
    high = leaf.high if leaf.step is None else _step(leaf.low, leaf.high, leaf.step, math.floor, float)
    return FloatDistribution(leaf.low, high, log=leaf.log, step=leaf.step)


def _step(low: float, near: float, step: float, rounded: Callable[[Any], int], number: Any) -> Any:
    """The number near another one that steps from `low` reach; decimal, so that ten steps of 0.1 are 1."""
    first, width = Decimal(str(low)), Decimal(str(step))
    return number(first + rounded((Decimal(str(near)) - first) / width) * width)
