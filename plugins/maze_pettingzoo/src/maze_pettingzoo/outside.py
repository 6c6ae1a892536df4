"""A game that runs somewhere else: what stands in for it, and what its owner tells of its agents, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError
from maze_pettingzoo.agent_masks import MASK
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.outside import Outside, Reply


@attrs.frozen
class Turns:
    """Whose turns come next: a reply for each agent that was told of.

    Attributes:
        replies: by agent, in the order of the turns; those that are out come first.
        agents: who is in the game, with those that the replies say are out.
    """

    replies: Mapping[str, Reply]
    agents: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        """Whether the replies say of everybody in the game that they are out."""
        return all(agent in self.replies and self.replies[agent].ends_episode for agent in self.agents)

    def again(self) -> Turns:
        """The same observations, and nobody is out."""
        replies = {agent: attrs.evolve(own, terminated=False, truncated=False) for agent, own in self.replies.items()}
        return Turns(replies, self.agents)


class OutsideGame:
    """Stands in for an `AECEnv`: its turns are those that the outside tells of, which gets the actions by agent.

    An agent is in the game from when it is told of first until it is told to be out. Draws nothing.

    Args:
        inner: the game whose agents and spaces it has; never stepped.
        outside: gives `Turns` as its states, gets actions by agent.

    Attributes:
        agents, agent_selection, infos: as PettingZoo has them.
    """

    def __init__(self, inner: Any, outside: Outside) -> None:
        self.possible_agents = list(inner.possible_agents)
        self._observation_spaces = {agent: inner.observation_space(agent) for agent in self.possible_agents}
        self._action_spaces = {agent: inner.action_space(agent) for agent in self.possible_agents}
        self._outside = outside
        self.agents: list[str] = []
        self.agent_selection = self.possible_agents[0]
        self.infos: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, Any] = {}

    def observation_space(self, agent: str) -> Any:
        """The agent's."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """The outside's first turns."""
        turns = self._outside.reset().maze_state
        self._take(turns.again() if turns.is_over else turns)

    def step(self, action: Any) -> None:
        """The action of the agent whose turn it is, None where it is out; the last one's goes outside, with all."""
        if action is None:
            self.agents.remove(self.agent_selection)
        else:
            self._actions[self.agent_selection] = action
        self._waiting.pop(0)
        if self._waiting:
            self.agent_selection = self._waiting[0]
        elif self.agents:
            self._take(self._outside.step(self._actions).maze_state)

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What was told of the agent whose turn it is."""
        own = self._replies[self.agent_selection]
        observation = self.observe(self.agent_selection) if observe else None
        return observation, own.reward, own.terminated, own.truncated, own.info

    def observe(self, agent: str) -> Any:
        """What an agent was shown last."""
        return self._seen[agent]

    def render(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is left to close."""

    def __deepcopy__(self, _memo: dict[int, Any]) -> OutsideGame:
        raise EnvError(
            "there is no game to clone: it runs outside of this process",
            help="plan in rollouts, which step one in this process",
        )

    def _take(self, turns: Turns) -> None:
        self.agents, self._replies = list(turns.agents), turns.replies
        self._waiting, self._actions = list(turns.replies), dict[str, Any]()
        self.agent_selection = self._waiting[0]
        for agent, own in turns.replies.items():
            self.infos[agent] = own.info
            if own.maze_state is not None or agent not in self._seen:
                self._seen[agent] = own.maze_state


def told_by_agent(
    reply: Reply, actor: ActorID | str | None, actors: Mapping[str, ActorID], present: Iterable[str]
) -> dict[str, Reply]:
    """Take apart what was told of one agent, or of several by their names.

    Args:
        reply: in the game's words. Of several agents, observations are a dict by agent, and rewards, flags and infos
            may be; a single reward is shared, a single flag holds for everybody.
        actor: whose it is; None: a dict by agent.
        actors: of all possible agents.
        present: agents that are in the game.

    Raises:
        EnvError: there is no such agent, or the observation does not say whose it is.
    """
    if actor is not None:
        agent = next((agent for agent, own in actors.items() if actor in (agent, own)), None)
        if agent is None:
            known = ", ".join(f"{agent!r} or {tuple(own)}" for agent, own in actors.items())
            raise EnvError("actor_id is no agent of the game", received=repr(actor)[:200], expected=known)
        return {agent: attrs.evolve(reply, actor_id=actors[agent])}
    _require_names(reply, actors)
    told = _agents_told(reply, actors, present)
    rewards: Any = reply.reward
    if not isinstance(rewards, Mapping):
        rewards = dict.fromkeys(told, rewards if len(told) == 1 else scalar_reward(rewards) / len(told))
    return {
        agent: Reply(
            maze_state=reply.maze_state.get(agent),
            reward=rewards.get(agent, 0.0),
            terminated=_of(reply.terminated, agent, False),
            truncated=_of(reply.truncated, agent, False),
            info=_of(reply.info, agent, {}) if isinstance(reply.info, Mapping) else reply.info,
            actor_id=actors[agent],
        )
        for agent in told
    }


def _agents_told(reply: Reply, actors: Mapping[str, ActorID], present: Iterable[str]) -> list[str]:
    """Who is shown something or said to be out, in the order of the agents."""
    told, everybody = set(reply.maze_state), set(present)
    for flag in (reply.terminated, reply.truncated):
        if isinstance(flag, Mapping):
            told |= {agent for agent, value in flag.items() if value}
        elif isinstance(flag, (bool, np.bool_)) and flag:
            told |= everybody
    return [agent for agent in actors if agent in told]


def _of(value: Any, agent: str, default: Any) -> Any:
    return value.get(agent, default) if isinstance(value, Mapping) else value


def _require_names(reply: Reply, actors: Mapping[str, ActorID]) -> None:
    names = ", ".join(map(repr, actors))
    if not isinstance(reply.maze_state, Mapping) or not reply.maze_state.keys() <= actors.keys():
        is_named = isinstance(reply.maze_state, Mapping)
        raise EnvError(
            "the observation does not say whose it is",
            received=f"a dict of {', '.join(map(repr, reply.maze_state))}"
            if is_named
            else repr(reply.maze_state)[:200],
            expected=f"a dict by agent, of {names}",
            help=f"give a dict by agent, or say who sees it: act(observation, actor_id={next(iter(actors))!r})",
        )
    parts = {"reward": reply.reward, "terminated": reply.terminated, "truncated": reply.truncated}
    for name, part in parts.items():
        if isinstance(part, Mapping) and not part.keys() <= actors.keys():
            raise EnvError(f"{name} has keys that are no agents", received=", ".join(map(repr, part)), expected=names)
    if isinstance(reply.info, Mapping) and MASK in reply.info:
        raise EnvError(
            f"info[{MASK!r}] does not say whose mask it is",
            received="observations by agent, and an info that is not",
            expected=f"a dict by agent, of {names}",
            help=f'give info={{agent: {{"{MASK}": …}}}}',
        )


def in_turn(replies: Mapping[str, Reply], agents: Sequence[str]) -> Turns | None:
    """Let the agents that were told of have their turns, those that are out first; None where nobody has one.

    Args:
        replies: by agent, in their order.
        agents: who is in the game; others join, unless they are said to be out.
    """
    kept = {agent: own for agent, own in replies.items() if agent in agents or not own.ends_episode}
    if not kept:
        return None
    order = sorted(kept, key=lambda agent: not kept[agent].ends_episode)
    joining = (agent for agent in kept if agent not in agents)
    return Turns({agent: kept[agent] for agent in order}, (*agents, *joining))
