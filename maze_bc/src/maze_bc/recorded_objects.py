"""Recorded MazeStates and MazeActions for conversions, in the classes that those were written for."""

from __future__ import annotations

import contextlib
from typing import Any

from maze_bc.data import OWNER
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.datasets.maze_episodes import HoldsMazeEpisodes, MazeEpisode


def begin_episode(core_env: Any) -> None:
    """Bring a simulation into a state, from which recorded ones are told; one that cannot begin has none."""
    with contextlib.suppress(Exception):
        core_env.context.begin_episode(0)
        core_env.reset(0)


def objects_of(recorded: HoldsMazeEpisodes, index: int, core_env: Any) -> MazeEpisode:
    """States, actions and events of one episode.

    Args:
        recorded: holds them.
        index: of the episode.
        core_env: of the environment whose conversions read them.

    Raises:
        RequestError: there are none of this episode.
        EnvError: objects are of classes that the environment does not tell, so that conversions would read others.
    """
    episode = recorded.maze_episode(index, core_env)
    if episode is None:
        raise RequestError(
            f"episode {index} was recorded without MazeStates and MazeActions, which others have",
            option="demonstrations",
            owner=OWNER,
            help="learn from recordings of one kind",
        )
    if episode.unknown_classes:
        name = type(core_env).__name__
        raise EnvError(
            f"recorded states or actions are of classes that {name} does not tell",
            received=", ".join(episode.unknown_classes),
            expected="attrs classes, dataclasses or enums that its methods are annotated with",
            owner=f"{type(core_env).__module__}.{name}",
            help="annotate the core environment: def get_maze_state(self) -> YourState, def step(self, maze_action: "
            "YourAction), and the fields of these classes; or import the classes in its module",
        )
    return episode
