"""Where the pictures of recorded episodes come from.

A Maze environment's renderer draws recorded states. Any other environment is played again with the recorded seed and
actions, and drawn on the way; whether it still does what was recorded is checked by its rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import StructuredEnv
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.datasets.contract import Episode
from maze_runtime.datasets.maze_episodes import MazeEpisode
from maze_runtime.env.renderer import ChoiceArgument, IntRange, Renderer
from maze_runtime.env.simulation import Recordable


@attrs.frozen(kw_only=True)
class Frames:
    """The pictures of one episode.

    Attributes:
        pictures: one a decision, of the moment before it, and a last one; empty where there are none.
        note: what a viewer should be told about them.
    """

    pictures: tuple[np.ndarray, ...] = ()
    note: str = ""


def core_env_of(env: StructuredEnv | None) -> Any | None:
    """The simulation inside of an environment's wrappers; None where it is no Maze environment."""
    found = None if env is None else capability(env, Recordable)  # type: ignore[type-abstract]
    return getattr(found, "core_env", None)


def drawn_frames(
    episode: MazeEpisode, renderer: Renderer, max_decisions: int, arguments: Mapping[str, Any] | None = None
) -> Frames:
    """Pictures of recorded states.

    Args:
        episode: states, actions and events.
        renderer: the environment's.
        max_decisions: draw no more.
        arguments: of the renderer.
    """
    steps = episode.steps[:max_decisions]
    pictures = [renderer.render(s.maze_state, s.maze_action, s.events, **arguments or {}) for s in steps]
    if len(steps) == len(episode.steps) and episode.final_state is not None:
        pictures.append(renderer.render(episode.final_state, None, (), **arguments or {}))
    return Frames(pictures=tuple(pictures))


def replayed_frames(make_env: Callable[[], StructuredEnv], episode: Episode, max_decisions: int) -> Frames:
    """Pictures of the environment while it takes the recorded actions again; a note where it cannot be drawn.

    Args:
        make_env: builds it with drawing switched on.
        episode: recorded at the same place in the stack of wrappers.
        max_decisions: draw no more.
    """
    if episode.info.seed is None:
        return Frames(note="no pictures: the episode was recorded without a seed, so it cannot be played again")
    try:
        with closing(make_env()) as env:
            return _replayed(env, episode, max_decisions)
    except MazeError as error:
        return Frames(note=f"no pictures: {error.what}")
    except Exception as error:  # a system without OpenGL, a drawing that the environment does not offer
        return Frames(note=f"no pictures: drawing failed with {type(error).__name__}: {error}")


def renderer_arguments(renderer: Renderer, given: Mapping[str, str]) -> dict[str, Any]:
    """Arguments a user wrote as text, checked against what the renderer offers.

    Raises:
        RequestError: there is no such argument, or it cannot have this value.
    """
    offered = renderer.arguments()
    if unknown := [name for name in given if name not in offered]:
        raise RequestError(
            f"the renderer has no argument {unknown[0]!r}", expected=", ".join(map(repr, offered)) or "none at all"
        )
    return {name: _argument(name, text, offered[name]) for name, text in given.items()}


def _argument(name: str, text: str, offered: IntRange | ChoiceArgument) -> Any:
    if isinstance(offered, ChoiceArgument):
        if text in offered.options:
            return text
        expected = ", ".join(map(repr, offered.options))
    else:
        if text.lstrip("-").isdigit() and offered.low <= int(text) <= offered.high:
            return int(text)
        expected = f"a whole number from {offered.low} to {offered.high}"
    raise RequestError(f"the renderer's {name} cannot be {text!r}", expected=expected)


def _replayed(env: StructuredEnv, episode: Episode, max_decisions: int) -> Frames:
    env.reset(seed=episode.info.seed)
    pictures = [_picture(env)]
    rows = dict.fromkeys(episode.policy_keys, 0)
    for t in range(min(len(episode), max_decisions)):
        key = episode.policy_keys[episode.key_index[t]]
        if env.actor_id().step_key != key:
            return Frames(pictures=tuple(pictures), note=_differs(t))
        action = {head: array[rows[key]] for head, array in episode.action[key].items()}
        rows[key] += 1
        _, reward, terminated, truncated, _ = env.step(action)
        if not np.isclose(reward, episode.reward[t], rtol=1e-4, atol=1e-6):
            return Frames(pictures=tuple(pictures), note=_differs(t))
        pictures.append(_picture(env))
        if (terminated or truncated) and t + 1 < len(episode):
            return Frames(pictures=tuple(pictures), note=_differs(t + 1))
    return Frames(pictures=tuple(pictures))


def _differs(decision: int) -> str:
    return (
        f"pictures only up to decision {decision}: from there the environment, played again, does not do what was "
        "recorded; it is not deterministic, or has changed"
    )


def _picture(env: StructuredEnv) -> np.ndarray:
    picture = env.render()
    if isinstance(picture, (list, tuple)):
        picture = picture[-1] if picture else None
    if picture is None:
        raise RequestError("the environment draws nothing")
    return np.array(picture)
