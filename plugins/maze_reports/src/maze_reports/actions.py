"""The actions of recorded episodes: how often each choice was taken, and how continuous actions lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maze_kernel.errors import MazeError
from maze_reports.charts.bars import choice_bars, number_bars
from maze_trajectories.dataset import TrajectoryDataset, recordings_in

MAX_EPISODES = 100
"""Of the newest recording only the first so many episodes are read."""
MAX_CHOICES = 200
"""Whole numbers up to here are choices; larger ones are numbers."""
_MAX_PARTS = 8


def recorded_actions(run: Path) -> tuple[dict[str, np.ndarray], int]:
    """The actions of the newest recording of a run, by policy key and head, and from how many episodes.

    Returns:
        Name of a head to its actions (M, …), and the number of episodes; nothing where none were recorded.
    """
    recordings = recordings_in(run)
    if not recordings:
        return {}, 0
    parts: dict[str, list[np.ndarray]] = {}
    n_episodes = 0
    try:
        dataset = TrajectoryDataset.open(recordings[-1])
        dataset = dataset.subset(range(min(len(dataset), MAX_EPISODES)))
        for episode in dataset:
            n_episodes += 1
            for key, heads in episode.action.items():
                for head, values in heads.items():
                    parts.setdefault(head if len(episode.policy_keys) == 1 else f"{key} · {head}", []).append(values)
    except MazeError:
        pass  # what was read before is shown; a damaged recording is no reason to have no report
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}, n_episodes


def action_charts(actions: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Caption and picture of every part of every head; of many parts the first eight."""
    charts = []
    for name, values in actions.items():
        columns = values.reshape(len(values), -1)
        for index in range(min(columns.shape[1], _MAX_PARTS)):
            caption = name if columns.shape[1] == 1 else f"{name}[{index}]"
            charts.append((caption, _chart(columns[:, index], caption)))
    return charts


def _chart(values: np.ndarray, caption: str) -> str:
    is_choice = values.dtype.kind in "biu" and values.min(initial=0) >= 0 and values.max(initial=0) < MAX_CHOICES
    if is_choice:
        return choice_bars(np.bincount(values.astype(np.int64)), title=f"choices of {caption}", x_label="choice")
    return number_bars(values.astype(np.float64), title=f"values of {caption}", x_label="value")
