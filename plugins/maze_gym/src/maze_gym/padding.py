"""Graph, Sequence and Text spaces as arrays of fixed size, with masks that say which rows exist.

A Graph called `x` becomes `x_nodes` (N, D), `x_node_mask` (N,), `x_edge_links` (E, 2) and, where edges have features,
`x_edges` (E, F); a Sequence becomes `x` (T, D) and `x_mask` (T,). Rows that do not exist are zero, links −1. A Text
becomes the numbers of its words, `x` (W,).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.errors import EnvError, SpaceError


@attrs.frozen(kw_only=True)
class Padding:
    """How many rows are kept; 0: such a space is refused. `words` are those that a text may hold, by number from 2."""

    max_nodes: int = 0
    max_edges: int = 0
    max_items: int = 0
    max_words: int = 0
    words: tuple[str, ...] = ()


def is_padded(space: spaces.Space[Any]) -> bool:
    """Whether values of this space differ in size; spaces of strings need not be `spaces.Text`."""
    return isinstance(space, (spaces.Graph, spaces.Sequence)) or _is_text(space)


def _is_text(space: spaces.Space[Any]) -> bool:
    return space.dtype is not None and space.dtype.kind == "U"


def padded_parts(
    space: spaces.Space[Any], name: str, padding: Padding
) -> Iterator[tuple[str, spaces.Space[Any], Callable[[Any], np.ndarray]]]:
    """Key, outer space and conversion of each array that a Graph or Sequence becomes.

    Raises:
        SpaceError: `padding` keeps no rows of such a space, or its elements are no vectors or numbers.
    """
    if isinstance(space, spaces.Graph):
        _require(space, name, max_nodes=padding.max_nodes, max_edges=padding.max_edges)
        yield from _graph_parts(space, name, padding.max_nodes, padding.max_edges)
    elif _is_text(space):
        _require(space, name, max_words=padding.max_words)
        words = _Words(name, padding)
        yield name, words.outer, words.fill
    else:
        assert isinstance(space, spaces.Sequence)
        _require(space, name, max_items=padding.max_items)
        yield from _sequence_parts(space, name, padding.max_items)


def _graph_parts(space: spaces.Graph, name: str, n_nodes: int, n_edges: int) -> Iterator[Any]:
    node_rows = _Rows(space.node_space, f"nodes of {name!r}", "max_nodes", n_nodes)
    yield f"{name}_nodes", node_rows.outer, lambda graph: node_rows.fill(graph.nodes)
    yield f"{name}_node_mask", spaces.MultiBinary(n_nodes), lambda graph: node_rows.mask(graph.nodes)
    links = _Links(name, n_edges, n_nodes)
    yield f"{name}_edge_links", links.outer, lambda graph: links.fill(graph.edge_links)
    if space.edge_space is not None:
        edge_rows = _Rows(space.edge_space, f"edges of {name!r}", "max_edges", n_edges)
        yield f"{name}_edges", edge_rows.outer, lambda graph: edge_rows.fill(graph.edges)


def _sequence_parts(space: spaces.Sequence, name: str, n_items: int) -> Iterator[Any]:
    rows = _Rows(space.feature_space, f"items of {name!r}", "max_items", n_items)
    yield name, rows.outer, rows.fill
    yield f"{name}_mask", spaces.MultiBinary(n_items), rows.mask


class _Rows:
    """Vectors, or numbers as one-hots, one below the other."""

    def __init__(self, element: spaces.Space[Any], what: str, option: str, n_rows: int) -> None:
        self._what, self._option, self._n_rows = what, option, n_rows
        self._n_classes, self._start = 0, 0
        if isinstance(element, spaces.Discrete):
            self._n_classes, self._start = int(element.n), int(element.start)
            self.outer = spaces.Box(0.0, 1.0, (n_rows, self._n_classes), np.float32)
        elif isinstance(element, spaces.Box) and len(element.shape) == 1:
            low, high = (np.asarray(bound, np.float32) for bound in (element.low, element.high))
            shape = (n_rows, *element.shape)
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
            self.outer = spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, np.float32)
        else:
            raise SpaceError(
                f"the {what} have no fixed array form",
                received=str(element),
                expected="a Box of one dimension, or Discrete",
                owner="maze-gym",
            )

    def fill(self, rows: Any) -> np.ndarray:
        """Rows (n, D), or numbers (n,), to (n_rows, D) with zeros behind them."""
        padded = np.zeros(self.outer.shape, np.float32)
        n_rows = self._count(rows)
        if n_rows and self._n_classes:
            padded[np.arange(n_rows), np.asarray(rows, np.int64).reshape(-1) - self._start] = 1.0
        elif n_rows:
            padded[:n_rows] = np.asarray(rows, np.float32)
        return padded

    def mask(self, rows: Any) -> np.ndarray:
        """Which rows exist, (n_rows,)."""
        return (np.arange(self._n_rows) < self._count(rows)).astype(np.int8)

    def _count(self, rows: Any) -> int:
        n_rows = 0 if rows is None else len(rows)
        if n_rows > self._n_rows:
            raise _too_many(self._what, n_rows, self._option, self._n_rows)
        return n_rows


class _Words:
    """The words of a text by number: 0 none, 1 one that is not known, 2 the first that is known."""

    def __init__(self, name: str, padding: Padding) -> None:
        self._what, self._max_words = f"words of {name!r}", padding.max_words
        self._numbers = {word.lower(): number for number, word in enumerate(padding.words, start=2)}
        self.outer = spaces.MultiDiscrete(np.full(padding.max_words, len(padding.words) + 2))

    def fill(self, text: str) -> np.ndarray:
        """Letters, digits and apostrophes make words; capitals do not matter. Returns (max_words,)."""
        found = re.findall(r"[\w']+", text.lower())
        if len(found) > self._max_words:
            raise _too_many(self._what, len(found), "max_words", self._max_words)
        padded = np.zeros(self._max_words, np.int64)
        padded[: len(found)] = [self._numbers.get(word, 1) for word in found]
        return padded


class _Links:
    """Pairs of node numbers."""

    def __init__(self, name: str, n_links: int, n_nodes: int) -> None:
        self._what, self._n_links = f"edges of {name!r}", n_links
        self.outer = spaces.Box(-1, n_nodes - 1, (n_links, 2), np.int64)

    def fill(self, links: Any) -> np.ndarray:
        """(n, 2) to (n_links, 2), -1 behind them."""
        padded = np.full(self.outer.shape, -1, np.int64)
        if links is not None and len(links):
            if len(links) > self._n_links:
                raise _too_many(self._what, len(links), "max_edges", self._n_links)
            padded[: len(links)] = links
        return padded


def _require(space: spaces.Space[Any], name: str, **numbers: int) -> None:
    missing = [option for option, number in numbers.items() if number < 1]
    if missing:
        raise SpaceError(
            f"maze-gym needs to know how large the {type(space).__name__} space of {name!r} can get",
            received=str(space),
            expected=" and ".join(f"{option} > 0" for option in numbers),
            owner="maze-gym",
            help=f"set {missing[0]} in [env], or --set env.{missing[0]}=…: shorter ones are padded",
        )


def _too_many(what: str, n_rows: int, option: str, n_kept: int) -> EnvError:
    return EnvError(
        f"an observation has more {what} than [env] {option} allows",
        received=str(n_rows),
        expected=f"at most {n_kept}",
        owner="maze-gym",
        help=f"raise {option}",
    )
