"""Writes and reads what a recording of a Maze environment holds beside arrays: states, actions and events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from maze_kernel.errors import TrajectoryError
from maze_runtime.datasets.maze_episodes import MazeEpisode, MazeStep
from maze_runtime.env.simulation import Recordable
from maze_trajectories.object_decoding import RecordedClasses
from maze_trajectories.object_encoding import ObjectEncoder

OBJECTS = "objects"
"""Name of the array that holds the JSON text, as bytes; arrays of the objects are `object/0`, `object/1`, …"""


class MazeStepRecorder:
    """Collects `MazeStep`s of the episode in progress as text.

    Args:
        env: tells them.
    """

    def __init__(self, env: Recordable) -> None:
        self._env = env
        self.clear()

    def clear(self) -> None:
        """Begin the next episode."""
        self._encoder = ObjectEncoder()
        self._steps: list[str] = []
        self._state = "null"
        self._n_events = 0

    def begin(self) -> None:
        """After `reset`."""
        self._state = self._encoder.encode(self._env.get_maze_state(), "the MazeState")

    def add(self, flat_step_end: bool) -> None:
        """After `step`."""
        env, encode = self._env, self._encoder.encode
        events = list(env.get_step_events())
        fired = events[self._n_events :]
        self._n_events = 0 if flat_step_end else len(events)
        components = env.get_serializable_components()
        parts = {
            "state": self._state,
            "action": encode(env.get_maze_action(), "the MazeAction"),
            "events": encode(fired, "an event"),
            "components": encode(components, "a serializable component") if components else "{}",
        }
        self._steps.append("{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}")
        self._state = encode(env.get_maze_state(), "the MazeState")

    def arrays(self, failed: bool) -> dict[str, np.ndarray]:
        """The episode for its file."""
        final = "null" if failed else self._state
        text = f'{{"steps":[{",".join(self._steps)}],"final_state":{final}}}'
        arrays = {OBJECTS: np.frombuffer(text.encode(), np.uint8)}
        return arrays | {f"object/{index}": array for index, array in enumerate(self._encoder.arrays)}


def read_maze_episode(path: Path, core_env: Any | None = None) -> MazeEpisode | None:
    """The simulation's side of a recorded episode; None where the environment was no Maze environment.

    Args:
        path: the file of the episode.
        core_env: of the environment it was recorded in, whose classes the objects come back in; None: they come back
            as namespaces.

    Raises:
        TrajectoryError: the file is damaged.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            if OBJECTS not in names:
                return None
            tree = json.loads(file.get_tensor(OBJECTS).tobytes())
            arrays = [file.get_tensor(f"object/{index}") for index in range(len(names)) if f"object/{index}" in names]
        return _episode(tree, arrays, RecordedClasses(core_env))
    except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
        raise TrajectoryError(f"the recorded episode {path} is damaged: {error!r:.300}") from error


def _episode(tree: Mapping[str, Any], arrays: Sequence[np.ndarray], classes: RecordedClasses) -> MazeEpisode:
    decisions = [
        (classes.state(step["state"], arrays), classes.action(step["action"], arrays)) for step in tree["steps"]
    ]
    final_state = classes.state(tree["final_state"], arrays)
    unknown = tuple(sorted(classes.unknown))  # of states and actions alone
    steps = tuple(
        MazeStep(
            maze_state=maze_state,
            maze_action=maze_action,
            events=tuple(classes.event(event, arrays) for event in step["events"]),
            components=classes.decode(step["components"], arrays),
        )
        for (maze_state, maze_action), step in zip(decisions, tree["steps"], strict=True)
    )
    return MazeEpisode(steps=steps, final_state=final_state, unknown_classes=unknown)
