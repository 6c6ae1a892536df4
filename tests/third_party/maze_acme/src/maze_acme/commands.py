"""`maze acme-rewards`: what a run was paid, out of the statistics that the logger `csv` wrote."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.errors import RequestError

_MEAN, _COUNT = "BaseEnvEvents/reward/mean", "BaseEnvEvents/episode_count"


def rewards(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    folder: Annotated[str, typer.Option("--folder", help="Where the logger csv wrote.")] = "statistics",
) -> None:
    """Sum up the rewards of the training episodes of a run."""
    episodes = _episodes(run / folder / "train.csv")
    n_episodes = sum(count for count, _ in episodes)
    total = sum(count * mean for count, mean in episodes if count)
    print(f"{n_episodes:g} training episodes, {total:.1f} reward in all")


def _episodes(file: Path) -> list[tuple[float, float]]:
    """(count, mean reward) of the episodes of each epoch.

    Raises:
        RequestError: there is no such file, or it holds no rewards.
    """
    if not file.is_file():
        raise RequestError(
            f"there are no statistics in {file.parent}",
            expected='a run whose experiment has [[loggers]] use = "csv"',
            owner="maze-acme",
        )
    by_epoch: dict[str, dict[str, float]] = {}
    with open(file, newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            by_epoch.setdefault(row["epoch"], {})[row["tag"]] = float(row["value"])
    found = [(values.get(_COUNT, 1.0), values[_MEAN]) for values in by_epoch.values() if _MEAN in values]
    if not found:
        raise RequestError(f"{file} holds no rewards", expected=f"rows of {_MEAN}", owner="maze-acme")
    return found
