"""From the table `[space]` of a sweep file to a `Space`, and where each of its parts stands in the file.

A table is a leaf where it has one of the keys `values`, `low`, `high` and `choices`, and anything but a table behind
it; every other table leads to further ones. What stands beside `choices` in a table applies to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from maze_kernel.config.origin import Origin, show_path
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems, show_value
from maze_sweeps.items import path_text
from maze_sweeps.leaf_reading import LEAVES, read_range, read_values, same
from maze_sweeps.space import Branch, Choice, Leaf, Space, Values

_WORDS = ("values", "low", "high", "choices")
_OWN = {"seed": "seeds", "name": "name"}
"""Settings of an experiment that a sweep file has a key of its own for."""


@attrs.frozen(kw_only=True)
class Assignment:
    """One thing that a space sets.

    Attributes:
        path: the setting, with the indices of elements that are named by their `use`.
        at: where it stands.
        branches: name of each choice around to the label with which it applies.
        is_filled: a list or a table, which further settings may change.
    """

    path: tuple[str, ...]
    at: KeyPath
    branches: Mapping[str, str]
    is_filled: bool = False


@attrs.frozen(kw_only=True)
class SpaceText:
    """A space and its text.

    Attributes:
        origin: of the sweep file.
        leaves: leaf name to where it stands.
        settings: name of a choice, label and path of a setting to where that stands.
        assignments: everything that is set; what replaces a table before what is set in it.
    """

    space: Space
    origin: Origin
    leaves: Mapping[str, KeyPath]
    settings: Mapping[tuple[str, str, str], KeyPath]
    assignments: Sequence[Assignment]

    def place(self, leaf: Leaf, value: Any) -> KeyPath:
        """Where a value of a leaf stands."""
        at = self.leaves[leaf.name]
        if isinstance(leaf, Values):
            return (*at, "values", next(i for i, one in enumerate(leaf.values) if same(one, value)))
        if isinstance(leaf, Choice):
            return (*at, "choices", [branch.label for branch in leaf.branches].index(value))
        return (*at, "low") if value == leaf.low else (*at, "high") if value == leaf.high else at


@attrs.frozen(kw_only=True)
class _Context:
    """What lies around a table: the innermost choice.

    Attributes:
        depth: of its path, in keys.
        name: before which its leaves have the rest of their path.
        constants: path to value of what its branch sets, None outside of any.
        branches: name of each choice around to the label of the branch.
    """

    depth: int = 0
    name: str = ""
    constants: dict[tuple[str, ...], tuple[Any, KeyPath]] | None = None
    branches: Mapping[str, str] = attrs.field(factory=dict)

    def named(self, path: tuple[str, ...]) -> str:
        rest = path_text(path[self.depth :])
        return f"{self.name}.{rest}" if self.name and rest else self.name or rest


def read_space(table: Mapping[str, Any], experiment: Mapping[str, Any], problems: Problems) -> SpaceText:
    """The space of a sweep; what is wrong is recorded in `problems` and left out.

    Args:
        table: what stands below `[space]`.
        experiment: the data of the experiment, for the names of the elements of its lists.
    """
    reader = _SpaceReader(experiment, problems)
    found = reader.inner(table, ("space",), (), _Context())
    if not found and not len(problems):
        problems.add(
            ("space",), "the space is empty: there is nothing to choose", help=f"name settings in it with {LEAVES}"
        )
    space = Space(leaves=tuple(found))
    return SpaceText(
        space=space,
        origin=problems.origin,
        leaves=reader.leaves,
        settings=reader.settings,
        assignments=reader.assignments,
    )


def with_indices(path: Sequence[str], experiment: Mapping[str, Any]) -> tuple[str, ...]:
    """The path with the indices of elements that it names by their `use`."""
    data: Any = experiment
    found = []
    for part in path:
        if isinstance(data, list):
            uses = [element.get("use") if isinstance(element, Mapping) else None for element in data]
            part = str(uses.index(part)) if uses.count(part) == 1 else part
            data = data[int(part)] if part.isdecimal() and int(part) < len(data) else None
        else:
            data = data.get(part) if isinstance(data, Mapping) else None
        found.append(part)
    return tuple(found)


class _SpaceReader:
    def __init__(self, experiment: Mapping[str, Any], problems: Problems) -> None:
        self._experiment = experiment
        self._problems = problems
        self.leaves: dict[str, KeyPath] = {}
        self.settings: dict[tuple[str, str, str], KeyPath] = {}
        self.assignments: list[Assignment] = []

    def inner(self, table: Mapping[str, Any], at: KeyPath, path: tuple[str, ...], context: _Context) -> list[Leaf]:
        """The leaves of a table: those of its choices first, because a choice may replace the whole table."""
        words = [word for word in _WORDS if word in table and not isinstance(table[word], Mapping)]
        if "choices" in words:
            rest = {key: value for key, value in table.items() if key != "choices"}
            choice, path = self._choice(table["choices"], at, path, context)
            return [*choice, *self._tables(rest, at, path, context)]
        if words:
            leaf = self._leaf(table, words, at, path, context)
            return [] if leaf is None else [leaf]
        return self._tables(table, at, path, context)

    def _tables(self, table: Mapping[str, Any], at: KeyPath, path: tuple[str, ...], context: _Context) -> list[Leaf]:
        found: list[Leaf] = []
        if "use" in table and context.constants is not None and len(path) > context.depth:
            self._constant({}, at, path, context)
        for key, value in table.items():
            where, to = (*at, key), (*path, key)
            if isinstance(value, Mapping) and value:
                found += self.inner(value, where, to, context)
            elif context.constants is not None:
                self._constant(value, where, to, context)
            else:
                self._no_leaf(value, where, to)
        return found

    def _constant(self, value: Any, at: KeyPath, path: tuple[str, ...], context: _Context) -> None:
        """What a branch sets without a choice."""
        assert context.constants is not None
        context.constants[path] = (value, at)
        self._assign(at, path, context, is_filled=isinstance(value, (Mapping, list)))

    def _assign(self, at: KeyPath, path: tuple[str, ...], context: _Context, *, is_filled: bool = False) -> None:
        path = with_indices(path, self._experiment)
        self.assignments.append(Assignment(path=path, at=at, branches=context.branches, is_filled=is_filled))

    def _no_leaf(self, value: Any, at: KeyPath, path: tuple[str, ...]) -> None:
        self._problems.add(
            at,
            f"{path_text(path)} is a value and nothing to choose from",
            at_value=True,
            received=show_value(value),
            expected=f"a table with {LEAVES}",
            help=f"write {path_text(path)} = {{ values = [...] }} here, or the value into the experiment",
        )

    def _leaf(
        self, table: Mapping[str, Any], words: list[str], at: KeyPath, path: tuple[str, ...], context: _Context
    ) -> Leaf | None:
        name = self._named(at, path, context)
        self._assign(at, path, context)
        read = read_values if "values" in words else read_range
        return read(table, at, name, path_text(path), self._problems)

    def _named(self, at: KeyPath, path: tuple[str, ...], context: _Context) -> str:
        name = context.named(path) or "choices"
        if not context.name and path_text(path) in _OWN:
            own = _OWN[path_text(path)]
            self._problems.add(at, f"{path[0]} is not for a searcher to choose", help=f"write {own} = ... at the top")
        self.leaves[name] = at
        return name

    def _choice(
        self, tables: Any, at: KeyPath, path: tuple[str, ...], context: _Context
    ) -> tuple[list[Leaf], tuple[str, ...]]:
        """The choice, and the path of its table, which does not depend on what its branches use."""
        where = (*at, "choices")
        if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
            self._problems.add(
                where,
                "choices is empty: there is nothing to choose" if tables == [] else "choices is a list of tables",
                at_value=tables == [],
                received=None if tables == [] else show_value(tables),
                help=f"write [[{show_path(where)}]] before each of them",
            )
            return [], path
        name = self._named(at, path, context)
        if any("use" in table for table in tables):
            path = with_indices(path, self._experiment)  # a choice may change what the element uses
        labels = self._labels(tables, where)
        branches = [
            self._branch(table, (*where, index), path, name, {**context.branches, name: label})
            for index, (table, label) in enumerate(zip(tables, labels, strict=True))
        ]
        return [Choice(name=name, path=path_text(path), branches=tuple(branches))], path

    def _labels(self, tables: list[Mapping[str, Any]], where: KeyPath) -> list[str]:
        uses = [table.get("use") for table in tables]
        labels: list[str] = []
        for index, table in enumerate(tables):
            use = uses[index] if isinstance(uses[index], str) and uses.count(uses[index]) == 1 else None
            given = table.get("label")
            label = given if isinstance(given, str) else use or str(index)
            if label in labels:
                self._problems.add(
                    (*where, index, "label"), f"two choices are labelled {label}", help="give each a label of its own"
                )
            labels.append(label)
        return labels

    def _branch(
        self, table: Mapping[str, Any], at: KeyPath, path: tuple[str, ...], name: str, branches: Mapping[str, str]
    ) -> Branch:
        label = branches[name]
        context = _Context(depth=len(path), name=f"{name}[{label}]", constants={}, branches=branches)
        assert context.constants is not None
        if "use" in table:
            self._constant({}, at, path, context)
        rest = {key: value for key, value in table.items() if key != "label"}
        leaves = self.inner(rest, at, path, context)
        settings: dict[tuple[str, ...], Any] = {}
        for to, (value, where) in context.constants.items():
            depths = [depth for depth in range(len(to)) if to[:depth] in settings]
            around = (settings[to[: depths[0]]], to[depths[0] :]) if depths else None
            if around is None:
                settings[to] = value
                self.settings[name, label, path_text(to)] = where
            else:
                _put(*around, value)
        return Branch(label=label, settings={path_text(to): v for to, v in settings.items()}, leaves=tuple(leaves))


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
    if not (value == {} and isinstance(table.get(path[-1]), dict)):
        table[path[-1]] = value
