"""A Gymnasium environment of a team as a PettingZoo game: an entry of its Tuple spaces is an agent's.

That is how rware, lbforaging and their like are written: observations and actions are tuples with an entry an agent,
rewards a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from maze_kernel.errors import EnvError
from maze_pettingzoo.agent_masks import MASK
from maze_pettingzoo.seats import OWNER


class GymTeam(ParallelEnv):  # type: ignore[misc]
    """All agents act at once, as agent_0, agent_1, …

    A single reward is that of the team: each agent that is in the game gets an equal share. The episode ends for all
    at once, unless the environment says of each agent whether it is out.

    Args:
        env: with Tuple spaces; closed with this game.

    Raises:
        EnvError: its spaces are no Tuples with one entry an agent.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        seen, taken = env.observation_space, env.action_space
        if not (isinstance(seen, spaces.Tuple) and isinstance(taken, spaces.Tuple) and len(seen) == len(taken)):
            raise EnvError(
                "a Gymnasium environment is a game of several agents where its spaces are Tuples",
                received=f"observations {seen}, actions {taken}",
                expected="Tuple spaces for both, with one entry an agent",
                owner=OWNER,
                help='an environment of one agent is selected by use = "gym"',
            )
        self._env = env
        name = "team" if env.spec is None else env.spec.id
        self.metadata = {**env.metadata, "name": name, "is_parallelizable": True}
        self.render_mode = env.render_mode
        self.possible_agents = [f"agent_{index}" for index in range(len(seen))]
        self.agents: list[str] = []
        self.observation_spaces = dict(zip(self.possible_agents, seen.spaces, strict=True))
        self.action_spaces = dict(zip(self.possible_agents, taken.spaces, strict=True))

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's entry."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's entry."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode with all agents."""
        self.agents = list(self.possible_agents)
        self._last = {agent: space.sample() for agent, space in self.action_spaces.items()}
        observations, info = self._env.reset(seed=seed, options=options)
        return self._by_agent(observations), self._infos(info)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """One step of all; an agent that is out repeats its last action."""
        self._last.update(actions)
        taken = tuple(self._last[agent] for agent in self.possible_agents)
        observations, rewards, terminated, truncated, info = self._env.step(taken)
        results = (
            self._by_agent(observations),
            self._shares(rewards),
            self._by_agent(self._flags(terminated)),
            self._by_agent(self._flags(truncated)),
            self._infos(info),
        )
        self.agents = [agent for agent in self.agents if not (results[2][agent] or results[3][agent])]
        return results

    def render(self) -> Any:
        """The environment's own drawing."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _by_agent(self, entries: Sequence[Any]) -> dict[str, Any]:
        every = dict(zip(self.possible_agents, entries, strict=True))
        return {agent: every[agent] for agent in self.agents}

    def _shares(self, rewards: Any) -> dict[str, float]:
        if _is_list(rewards):
            return {agent: float(reward) for agent, reward in self._by_agent(rewards).items()}
        return dict.fromkeys(self.agents, float(rewards) / len(self.agents))

    def _flags(self, flags: Any) -> list[bool]:
        return [bool(flag) for flag in flags] if _is_list(flags) else [bool(flags)] * len(self.possible_agents)

    def _infos(self, info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        masks = info.get(MASK)
        if masks is None:
            return {agent: {} for agent in self.agents}
        return {agent: {MASK: mask} for agent, mask in self._by_agent(masks).items()}


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)
