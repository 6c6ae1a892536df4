"""The dataset "acme-csv": episodes of a flat environment from a table.

One line a decision and, after the last one of an episode, one with nothing but its last observation. The columns are
`episode`, `reward`, `terminated`, `truncated` and the names of the spaces: `observation.2` is the third number of the
array `observation`, `action` a single number.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_acme.options import CsvEpisodesOptions
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import Location, RequestError, SpaceError
from maze_runtime.datasets.contract import DatasetContext, Episode, EpisodeInfo
from maze_runtime.datasets.flat_episodes import flat_episode

OWNER = "maze-acme"


@attrs.frozen
class Line:
    """One line of a table: its number in the file, and its cells by column."""

    number: int
    cells: Mapping[str, str]


class CsvEpisodes:
    """The episodes of a table, which is read once.

    Args:
        path: of the table; messages call the source by it.
        delimiter: between columns.
        wanted: the spaces of the environment; those of the episodes, too.

    Raises:
        RequestError: there is no such table, it lacks columns or episodes, or a line is wrong.
        SpaceError: the environment is not flat.
    """

    def __init__(self, path: Path, delimiter: str, wanted: StructuredSpaces) -> None:
        if not wanted.is_flat:
            raise SpaceError(
                "tables hold episodes of flat environments only",
                received=f"policy keys {', '.join(wanted.policy_keys)}",
                owner=OWNER,
            )
        self.name = str(path)
        self.spaces = wanted
        self._path = path
        (key,) = wanted.policy_keys
        self._observation, self._action = wanted.observation[key], wanted.action[key]
        self._episodes = [self._episode(name, lines) for name, lines in self._read(delimiter)]
        self.lengths: Sequence[int] = [len(episode) for episode in self._episodes]

    def infos(self) -> Sequence[EpisodeInfo]:
        """Identifiers and sums of all episodes."""
        return [episode.info for episode in self._episodes]

    def expect(self, episodes: Sequence[int]) -> None:
        """Everything has been read."""

    def read(self, index: int) -> Episode:
        """One episode."""
        return self._episodes[index]

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self, delimiter: str) -> list[tuple[str, list[Line]]]:
        """The lines of each episode, in the order of the file."""
        if not self._path.is_file():
            raise RequestError(f"there is no table {self._path}", option="path", owner=OWNER)
        with open(self._path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=delimiter)
            self._require_columns(reader.fieldnames or ())
            lines = [Line(reader.line_num, cells) for cells in reader]
        if not lines:
            raise RequestError(f"{self._path} holds no episode", option="path", owner=OWNER)
        return [(name, list(found)) for name, found in groupby(lines, lambda line: line.cells["episode"])]

    def _require_columns(self, columns: Sequence[str]) -> None:
        leaves = [*self._observation.spaces.items(), *self._action.spaces.items()]
        wanted = ["episode", "reward", "terminated", "truncated"]
        wanted += [column for name, leaf in leaves for column in _columns(name, leaf)]
        missing = [column for column in wanted if column not in columns]
        if missing:
            raise RequestError(
                f"the table {self._path} does not fit the environment: it lacks {', '.join(missing)}",
                received=f"columns {', '.join(columns)}",
                expected=f"columns {', '.join(wanted)}",
                option="path",
                owner=OWNER,
            )

    def _episode(self, name: str, lines: Sequence[Line]) -> Episode:
        *decisions, last = lines
        if not decisions or last.cells["reward"]:
            raise self._wrong(last, f"episode {name} ends without a line that holds its last observation alone")
        return flat_episode(
            episode_id=f"{self._path.stem}-{name}",
            observation=self._arrays(self._observation, lines),
            action=self._arrays(self._action, decisions),
            reward=np.array([self._number(line, "reward") for line in decisions]),
            terminated=np.array([self._number(line, "terminated") for line in decisions], np.bool_),
            truncated=np.array([self._number(line, "truncated") for line in decisions], np.bool_),
        )

    def _arrays(self, space: spaces.Dict, lines: Sequence[Line]) -> ArrayDict:
        return {
            name: np.stack([self._value(name, leaf, line) for line in lines]) for name, leaf in space.spaces.items()
        }

    def _value(self, name: str, leaf: spaces.Space[Any], line: Line) -> np.ndarray:
        numbers = [self._number(line, column) for column in _columns(name, leaf)]
        value = np.array(numbers).reshape(leaf.shape or ()).astype(leaf.dtype)
        if not leaf.contains(value if leaf.shape else value[()]):
            raise self._wrong(line, f"{name!r} lies outside its space", received=str(value), expected=str(leaf))
        return value

    def _number(self, line: Line, column: str) -> float:
        try:
            return float(line.cells[column])
        except (TypeError, ValueError):
            cell = repr(line.cells[column])
            raise self._wrong(line, f"{column!r} is no number", received=cell, expected="a number") from None

    def _wrong(self, line: Line, what: str, received: str | None = None, expected: str | None = None) -> RequestError:
        where = Location(file=str(self._path), line=line.number)
        return RequestError(what, location=where, received=received, expected=expected, owner=OWNER)


def open_table(context: DatasetContext, options: CsvEpisodesOptions) -> CsvEpisodes:
    """Open the table that the options name, in the spaces of the environment.

    Raises:
        MazeError: whatever `CsvEpisodes` raises.
    """
    with closing(context.make_env()) as env:
        return CsvEpisodes(context.folder / options.path, options.delimiter, env.structured_spaces)


def _columns(name: str, leaf: spaces.Space[Any]) -> list[str]:
    """The columns of one array: its name alone, or with the number of each element."""
    return [f"{name}.{number}" for number in range(int(np.prod(leaf.shape)))] if leaf.shape else [name]
