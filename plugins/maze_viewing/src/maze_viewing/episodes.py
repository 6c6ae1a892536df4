"""What a viewer shows of an episode: pictures, and a few words about each decision."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.errors import EnvError
from maze_runtime.datasets.contract import Episode, EpisodeInfo
from maze_runtime.datasets.maze_episodes import MazeEpisode, MazeStep
from maze_viewing.frames import Frames

MAX_NUMBERS = 12
"""Arrays with more elements are shown by their shape."""

Row = tuple[str, str]
"""A name and what is shown for it."""


@attrs.frozen(kw_only=True)
class ShownStep:
    """One decision; the last one of an episode that ended has no actor and only a picture and an observation.

    Attributes:
        env_step: environment steps finished before it.
        actor: policy key, and agent where a key has several; "" in a flat environment.
        reward: of this decision.
        total: sum of the rewards up to and with this one.
        frame: index into the pictures; None: it has none.
        action, observation: rows to show.
        events: name, and rows of attributes.
    """

    env_step: int
    actor: str
    reward: float | None
    total: float
    frame: int | None
    action: Sequence[Row]
    observation: Sequence[Row]
    events: Sequence[tuple[str, Sequence[Row]]]


@attrs.frozen(kw_only=True)
class ShownEpisode:
    """One episode.

    Attributes:
        outcome: "terminated", "truncated", "cut off" or "failed".
        note: about the pictures.
        frames: PNG pictures as data URIs, each once.
    """

    seed: int | None
    total_reward: float
    n_env_steps: int
    n_decisions: int
    outcome: str
    error: str
    note: str
    steps: Sequence[ShownStep]
    frames: Sequence[str]


def shown_episode(episode: Episode, maze_episode: MazeEpisode | None, frames: Frames) -> ShownEpisode:
    """Everything a viewer needs of one episode."""
    info = episode.info
    uris, index = _unique_pictures(frames.pictures)
    totals = np.cumsum(episode.reward)
    env_steps = np.concatenate([[0], np.cumsum(episode.flat_step_end)])
    maze_steps: Sequence[MazeStep | None] = maze_episode.steps if maze_episode else [None] * len(episode)
    observations, actions = _rows(episode, episode.observation), _rows(episode, episode.action)
    several = len(episode.policy_keys) > 1 or bool(episode.agent_id.any())
    steps = [
        ShownStep(
            env_step=int(env_steps[t]),
            actor=_actor(episode, t) if several else "",
            reward=float(episode.reward[t]),
            total=float(totals[t]),
            frame=index[t] if t < len(index) else None,
            action=actions[t],
            observation=observations[t],
            events=[] if maze_step is None else [(e.name, _attributes(e.attributes)) for e in maze_step.events],
        )
        for t, maze_step in enumerate(maze_steps)
    ]
    if episode.final_key is not None:
        steps.append(_last(episode, env_steps, totals, index))
    return ShownEpisode(
        seed=info.seed,
        total_reward=info.total_reward,
        n_env_steps=info.n_env_steps,
        n_decisions=info.n_decisions,
        outcome=outcome_of(info),
        error=info.error or "",
        note=frames.note,
        steps=steps,
        frames=uris,
    )


def outcome_of(info: EpisodeInfo) -> str:
    """How an episode ended, in a word or two."""
    if info.error is not None:
        return "failed"
    return "terminated" if info.terminated else "truncated" if info.truncated else "cut off"


def _last(episode: Episode, env_steps: np.ndarray, totals: np.ndarray, index: Sequence[int]) -> ShownStep:
    observation = {name: array[None] for name, array in episode.final_observation.items()}
    return ShownStep(
        env_step=int(env_steps[-1]),
        actor="",
        reward=None,
        total=float(totals[-1]) if len(totals) else 0.0,
        frame=index[len(episode)] if len(index) > len(episode) else None,
        action=[],
        observation=_array_rows(observation, 0),
        events=[],
    )


def _actor(episode: Episode, t: int) -> str:
    key, agent = episode.policy_keys[episode.key_index[t]], int(episode.agent_id[t])
    alone = not episode.agent_id[episode.key_index == episode.key_index[t]].any()
    return key if alone else f"{key} · agent {agent}"


def _rows(episode: Episode, by_key: Mapping[str, Mapping[str, np.ndarray]]) -> list[list[Row]]:
    """The rows of each decision, in order."""
    rows: list[list[Row]] = [[]] * len(episode)
    for key, arrays in by_key.items():
        for row, t in enumerate(episode.decisions_of(key)):
            rows[t] = _array_rows(arrays, row)
    return rows


def _array_rows(arrays: Mapping[str, np.ndarray], row: int) -> list[Row]:
    return [(name, _text(array[row])) for name, array in arrays.items()]


def _attributes(attributes: Mapping[str, Any]) -> list[Row]:
    return [(name, _text(value)) for name, value in attributes.items()]


def _text(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.size > MAX_NUMBERS:
            return f"{' × '.join(map(str, array.shape))} {array.dtype}"
        return _text(array.tolist())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(item) for item in value)}]" if len(value) <= MAX_NUMBERS else f"{len(value)} items"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"


def encode_png(picture: np.ndarray) -> bytes:
    """A PNG file.

    Args:
        picture: (H, W, 3) or (H, W) uint8.

    Raises:
        EnvError: it is no such picture.
    """
    from PIL import Image

    if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (3,)):
        raise EnvError(
            "the environment rendered no picture",
            received=f"shape {picture.shape}, dtype {picture.dtype}",
            expected="(height, width, 3) uint8",
        )
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def _unique_pictures(pictures: Sequence[np.ndarray]) -> tuple[list[str], list[int]]:
    """Data URIs, each once, and which of them every picture is."""
    place: dict[bytes, int] = {}
    index = [place.setdefault(encode_png(picture), len(place)) for picture in pictures]
    return [f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in place], index
