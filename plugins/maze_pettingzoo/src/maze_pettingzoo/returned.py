"""What a batch of games returns, taken apart; where it is something else, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maze_gym.returned import of_reset, of_step, require_row_each
from maze_kernel.errors import EnvError


def of_games_reset(result: Any, agents: Sequence[str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Observations by agent and infos.

    Raises:
        EnvError: it returned something else.
    """
    observations, infos = of_reset(result)
    _require_agents("observations", observations, agents)
    return observations, infos


def of_games_step(result: Any, agents: Sequence[str], n_envs: int) -> tuple[Any, Any, Any, Any, Mapping[str, Any]]:
    """Observations and rewards by agent, terminated, truncated and infos.

    Raises:
        EnvError: it returned something else.
    """
    observations, rewards, terminated, truncated, infos = of_step(result)
    _require_agents("observations", observations, agents)
    _require_agents("rewards", rewards, agents)
    require_row_each(n_envs, **{f"reward of {agent}": rewards[agent] for agent in agents})
    return observations, rewards, terminated, truncated, infos


def _require_agents(what: str, by_agent: Any, agents: Sequence[str]) -> None:
    received = f"a {type(by_agent).__name__}"
    if isinstance(by_agent, Mapping):
        if all(agent in by_agent for agent in agents):
            return
        received = f"those of {', '.join(map(str, by_agent)) or 'nobody'}"
    raise EnvError(
        f"the {what} are not a dict with an array for each agent",
        received=received,
        expected=f"those of {', '.join(agents)}",
    )
