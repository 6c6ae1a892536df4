"""What a game of somebody's own lacks where PettingZoo, or this package, stumbled over it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pettingzoo
from pettingzoo.utils import conversions
from pettingzoo.utils.wrappers import BaseWrapper

from maze_kernel.errors import EnvError, MazeError
from maze_pettingzoo.outside import OutsideGame

_OF_STEP = {
    "observations": "_observations",
    "rewards": "_cumulative_rewards",
    "terminations": "terminations",
    "truncations": "truncations",
    "infos": "infos",
}
"""What a parallel game's `step` returns, and where PettingZoo keeps it."""
_OF_TURNS = ("rewards", "_cumulative_rewards", "terminations", "truncations", "infos")
"""What a game in which agents take turns has an entry of for each of its agents."""
_FOLDERS = (Path(pettingzoo.__file__).parent, Path(__file__).parent)


def explained(game: Any, error: Exception) -> EnvError | None:
    """The error of a game whose `reset` or `step` failed, if it is plain what is wrong with it.

    Args:
        game: whose turn-taking form raised.
        error: what it raised; one of the game's own code explains itself.
    """
    if isinstance(error, MazeError) or isinstance(game, OutsideGame) or not _was_raised_between(error):
        return None
    while isinstance(game, BaseWrapper):
        game = game.env
    if isinstance(game, conversions.parallel_to_aec_wrapper):
        return _of_parallel_game(game, error)
    if missing := [name for name in ("agents", "agent_selection", *_OF_TURNS) if not hasattr(game, name)]:
        return EnvError(f"the game has no {' and no '.join(missing)}", expected="set by its reset")
    if game.agents and game.agent_selection not in game.agents:
        return EnvError(
            "the game lets somebody act who is none of its agents",
            received=f"agent_selection = {game.agent_selection!r}",
            expected=f"one of {', '.join(map(str, game.agents))}",
        )
    return next(_incomplete("the game's {}", {name: getattr(game, name) for name in _OF_TURNS}, game.agents), None)


def _was_raised_between(error: Exception) -> bool:
    """Whether it comes from PettingZoo's utilities or from here, not from a game."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and any(folder in Path(frames[-1].filename).parents for folder in _FOLDERS)


def _of_parallel_game(game: Any, error: Exception) -> EnvError | None:
    call = traceback.extract_tb(error.__traceback__)[-1].name
    names = ("observations", "infos") if call == "reset" else tuple(_OF_STEP)
    if call in ("reset", "step") and isinstance(error, (ValueError, TypeError)):  # it cannot be unpacked
        return EnvError(
            f"its {call} did not return {', '.join(names[:-1])} and {names[-1]}",
            received=str(error),
            expected=f"a tuple of {len(names)} dicts, each with an entry an agent",
        )
    if not hasattr(game.env, "agents"):
        return EnvError("the game has no agents", expected="those that are in the game, set by its reset")
    parts = {name: getattr(game, _OF_STEP[name], None) for name in names}
    return next(_incomplete("the {} that the game returned", parts, game.env.agents), None)


def _incomplete(what: str, parts: Mapping[str, Any], agents: Sequence[str]) -> Iterator[EnvError]:
    expected = f"a dict with an entry for each of {', '.join(map(str, agents))}"
    for name, by_agent in parts.items():
        if not isinstance(by_agent, Mapping):
            yield EnvError(f"{what.format(name)} are no dict", received=type(by_agent).__name__, expected=expected)
        elif missing := [agent for agent in agents if agent not in by_agent]:
            yield EnvError(
                f"{what.format(name)} have no entry for {', '.join(map(str, missing))}",
                received=f"those of {', '.join(map(str, by_agent)) or 'nobody'}",
                expected=expected,
            )
        elif name.endswith("rewards"):
            for agent in agents:
                if not _is_number(by_agent[agent]):
                    yield EnvError(
                        f"the reward of {agent} is no number", received=repr(by_agent[agent]), expected="a float"
                    )


def _is_number(reward: Any) -> bool:
    try:
        float(reward)
    except (TypeError, ValueError):
        return False
    return True
