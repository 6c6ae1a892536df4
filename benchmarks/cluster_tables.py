"""What `cluster.py` measured as Markdown tables, and their place in a page."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from interleaved import median_ratio

BEGIN = "<!-- begin: python benchmarks/cluster.py --write docs/explanation/scaling.md -->"
END = "<!-- end: python benchmarks/cluster.py -->"

SUBPROCESS = "subprocess"
LARGE_BYTES = 10_000_000


class Figure(NamedTuple):
    """One cell: rounds of a pool, and those of the subprocess pool taken in turn with them; all are "a second"."""

    part: str
    pool: str
    n_actors: int
    values: list[float]
    yardstick: list[float]


def median_of(figures: Sequence[Figure], part: str, pool: str, n_actors: int) -> float | None:
    """Of all rounds; the subprocess pool has some for each number of nodes. None where nothing was measured."""
    values = [value for figure in figures if figure[:3] == (part, pool, n_actors) for value in figure.values]
    return statistics.median(values) if values else None


def grouped(value: float) -> str:
    """A number with a space between thousands."""
    return f"{value:,.0f}".replace(",", " ")


def table_of(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its title."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join([f"**{title}**\n", *(f"| {' | '.join(line)} |" for line in lines)])


def _milliseconds(rate: float) -> str:
    return f"{1e3 / rate:.3g}" if rate > 1 else grouped(1e3 / rate)


def _megabytes(n_bytes: int) -> Callable[[float], str]:
    return lambda rate: grouped(rate * n_bytes / 1e6)


SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "calls": ("Empty calls a second", grouped),
    "answers-100kb": ("Answers of 100 KB, MB a second", _megabytes(100_000)),
    "answers-10mb": ("Answers of 10 MB, MB a second", _megabytes(LARGE_BYTES)),
    "broadcast-40kb": ("A broadcast of 40 KB until every actor has answered, ms", _milliseconds),
    "broadcast-40mb": ("A broadcast of 40 MB until every actor has answered, ms", _milliseconds),
    "rollouts-1ms": ("Environment steps a second, 1 ms a step", grouped),
    "rollouts-10ms": ("Environment steps a second, 10 ms a step", grouped),
}
"""Titles of the parts, and the text of a figure."""


def tables(figures: Sequence[Figure]) -> list[str]:
    """How it was measured, and a table a part."""
    rounds, cores = len(figures[0].values), len(os.sched_getaffinity(0))
    intro = (
        f"Medians of {rounds} rounds in turn; {cores} cores, Python {platform.python_version()}. "
        "In brackets: the speed ÷ that of the subprocess pool in the same rounds."
    )
    parts = [part for part in SHOWN if any(figure.part == part for figure in figures)]
    return [intro, *(_table(part, [figure for figure in figures if figure.part == part]) for part in parts)]


def replace_marked(text: str, tables: str, first: str = BEGIN, last: str = END) -> str:
    """A page with new tables between its two comments."""
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise SystemExit(f"the page has no place for the tables: {first} … {last}")
    return f"{before}{first}\n\n{tables}\n\n{last}{after}"


def _table(part: str, figures: Sequence[Figure]) -> str:
    columns = sorted({figure.n_actors for figure in figures})
    pools = dict.fromkeys(figure.pool for figure in figures)
    rows = [[pool, *(_cell(pool, n_actors, figures) for n_actors in columns)] for pool in pools]
    return table_of(SHOWN[part][0], ["actors", *map(str, columns)], rows)


def _cell(pool: str, n_actors: int, figures: Sequence[Figure]) -> str:
    part = figures[0].part
    value = median_of(figures, part, pool, n_actors)
    if value is None:
        return ""
    text = SHOWN[part][1](value)
    if pool == SUBPROCESS:
        return text
    own = next(figure for figure in figures if figure[1:3] == (pool, n_actors))
    return f"{text} ({median_ratio(own.values, own.yardstick):.2f})"
