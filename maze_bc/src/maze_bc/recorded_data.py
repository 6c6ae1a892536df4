"""Recorded episodes of any dataset as demonstrations.

What a Maze environment recorded are its MazeStates and MazeActions: they go through the conversions and wrappers of the
*training* environment, so that old recordings survive a new observation interface. Other environments recorded arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maze_bc.data import OWNER, Decisions, Episode
from maze_bc.processors import Processor
from maze_bc.recorded_objects import begin_episode, objects_of
from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, PolicyKey, StructuredEnv
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.datasets.contract import Episode as RecordedEpisode
from maze_runtime.datasets.contract import EpisodeSource
from maze_runtime.datasets.maze_episodes import HoldsMazeEpisodes, MazeStep
from maze_runtime.env.batching import stack_rows
from maze_runtime.env.simulation import Recordable


def kept_lengths(recorded: EpisodeSource, processor: Processor | None) -> Sequence[int]:
    """Decisions of each episode that are learnt from; a processor reads all episodes once."""
    if processor is None:
        return recorded.lengths
    return tuple(int(processor(recorded.read(index)).sum()) for index in range(len(recorded.lengths)))


class RecordedArrays:
    """Episodes as their observations and actions were recorded.

    Args:
        recorded: all of them.
        processor: says which decisions are learnt from; None: all.

    Raises:
        RequestError: only actions were recorded.
    """

    def __init__(self, recorded: EpisodeSource, processor: Processor | None = None) -> None:
        for index in [place for place, length in enumerate(recorded.lengths) if length][:1]:
            _require_observations(recorded.read(index))
        self._recorded = recorded
        self._processor = processor
        self.spaces = recorded.spaces
        self.lengths = kept_lengths(recorded, processor)

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode.

        Raises:
            RequestError: only its actions were recorded.
        """
        episode = self._recorded.read(index)
        _require_observations(episode)
        kept = None if self._processor is None else self._processor(episode)
        return {
            key: Decisions(
                dict(episode.observation[key]), dict(episode.action[key]), *_who_and_when(episode, key, kept)
            )
            for key in episode.action
        }

    def close(self) -> None:
        """Close the recording."""
        self._recorded.close()


class RecordedStates:
    """Episodes whose MazeStates and MazeActions are converted anew.

    Args:
        recorded: all of them.
        env: an environment like those trained in, without transforms; its conversions and wrappers are used.
        processor: says which decisions are learnt from; None: all.
    """

    def __init__(self, recorded: HoldsMazeEpisodes, env: StructuredEnv, processor: Processor | None = None) -> None:
        self._recorded = recorded
        self._processor = processor
        self._env: Any = env
        self._core_env = _core_env(env)
        begin_episode(self._core_env)
        self.spaces = env.structured_spaces
        self.lengths: Sequence[int] = kept_lengths(recorded, processor)

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode.

        Raises:
            EnvError: an action conversion cannot turn a MazeAction into an action of its space, and the recorded
                one is of another space.
        """
        recorded = self._recorded.read(index)
        objects = objects_of(self._recorded, index, self._core_env)
        kept = None if self._processor is None else self._processor(recorded)
        converted = {}
        for key in recorded.action:
            decisions = recorded.decisions_of(key)
            rows = [self._row(key, objects.steps[t], recorded, place) for place, t in enumerate(decisions)]
            converted[key] = Decisions(
                stack_rows(self.spaces.observation[key], [observation for observation, _ in rows]),
                stack_rows(self.spaces.action[key], [action for _, action in rows]),
                *_who_and_when(recorded, key, kept),
            )
        return converted

    def close(self) -> None:
        """Close the dataset and the environment."""
        self._recorded.close()
        self._env.close()

    def _row(self, key: PolicyKey, step: MazeStep, recorded: RecordedEpisode, place: int) -> tuple[Any, Action]:
        try:
            observation, action = self._env.to_spaces(key, step.maze_state, step.maze_action)
        except EnvError:
            if self._recorded.spaces.action.get(key) != self.spaces.action[key]:
                raise
            observation, _ = self._env.to_spaces(key, step.maze_state)
            action = {name: array[place] for name, array in recorded.action[key].items()}
        if action is None:
            raise EnvError(f"a decision of policy key {key!r} was recorded without its MazeAction", owner=OWNER)
        return observation, action


def speaks_of_states(env: StructuredEnv, recorded: HoldsMazeEpisodes) -> bool:
    """Whether the environment has MazeStates and the recording holds them."""
    return _core_env(env) is not None and recorded.maze_episode(0) is not None


def _core_env(env: StructuredEnv) -> Any | None:
    return getattr(capability(env, Recordable), "core_env", None)  # type: ignore[type-abstract]


def _require_observations(episode: RecordedEpisode) -> None:
    if len(episode) and not episode.observation:
        raise RequestError(
            "only actions were recorded, and what they answer to is not known",
            option="demonstrations",
            owner=OWNER,
            help="replay it, and record that",
        )


def _who_and_when(
    episode: RecordedEpisode, key: PolicyKey, kept: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Agents and places of the decisions of a policy key, and which of them are learnt from."""
    place = episode.decisions_of(key)
    return episode.agent_id[place], place, None if kept is None else kept[place]
