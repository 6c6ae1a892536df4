"""Events of played episodes as CSV files: one file an event, one row each time it was fired."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_runtime.events.declaration import attributes_of
from maze_runtime.events.logs import EpisodeEventLog


@attrs.define(slots=True)
class EventRows:
    """Every firing of one event in one episode; plain data that travels between processes.

    Attributes:
        name: `Interface.event`, as in file names.
        attributes: names of the event's attributes.
        rows: the environment step (from 0) and the attributes' values.
    """

    name: str
    attributes: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def event_rows(log: EpisodeEventLog) -> list[EventRows]:
    """The events of an episode, in the order in which each was fired first."""
    tables: dict[str, EventRows] = {}
    for step, records in enumerate(log.steps):
        for record in records:
            name = record.name.replace("/", ".")
            if name not in tables:
                tables[name] = EventRows(name, attributes_of(record.event), [])
            table = tables[name]
            table.rows.append((step, *(record.attributes[attribute] for attribute in table.attributes)))
    return list(tables.values())


def write_event_files(folder: Path, episodes: Iterable[tuple[int, Sequence[EventRows]]]) -> list[Path]:
    """Write `folder/Interface.event.csv` with the columns episode, seed, step and the event's attributes.

    Args:
        folder: made when it is missing and there are events; files of these names are overwritten.
        episodes: seed and events of each episode, in order.

    Returns:
        the files, in alphabetical order.
    """
    merged: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
    for number, (seed, tables) in enumerate(episodes):
        for table in tables:
            _, rows = merged.setdefault(table.name, (table.attributes, []))
            rows += [(number, seed, *row) for row in table.rows]
    if merged:
        folder.mkdir(parents=True, exist_ok=True)
    for name, (attributes, rows) in merged.items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("episode", "seed", "step", *attributes))
            writer.writerows(rows)
    return sorted(folder / f"{name}.csv" for name in merged)
