"""Maze environments as RLlib steps them: flat ones as Gymnasium's, structured ones as multi-agent ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import attrs
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import ActorID, StructuredEnv
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import NonFiniteError
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.to_gymnasium import plain_space, to_gymnasium
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.events.reporters import reporter_of


@attrs.frozen
class FlatEnvs:
    """Builds what RLlib asks for: one environment, or a batch where its context names `num_envs`.

    Attributes:
        make_env: one environment with the wrappers that must see a single one.
        transforms: around it, innermost first.
    """

    make_env: Callable[[], StructuredEnv]
    transforms: Sequence[Transform]

    def __call__(self, context: dict[str, Any]) -> Any:
        """An environment, or a vector of them; the caller closes it."""
        n_envs = context.get("num_envs")
        return self.one() if n_envs is None else SyncVectorEnv([self.one] * n_envs)

    def one(self) -> gymnasium.Env[Any, Any]:
        """One environment."""
        env = transformed(self.make_env(), self.transforms)
        return FiniteEnv(to_gymnasium(env), EventSource(env))


def transformed(env: StructuredEnv, transforms: Sequence[Transform]) -> StructuredEnv:
    """An environment inside transforms, innermost first."""
    for transform in transforms:
        env = TransformedEnv(env, transform)
    return env


class EventSource:
    """The event statistics of one environment and of the transforms around it, as its episodes end.

    Args:
        env: inside its wrappers and transforms; without events nothing is ever drained.
    """

    def __init__(self, env: StructuredEnv) -> None:
        self._source = reporter_of(env)
        self._goes_on = False

    def begin(self) -> None:
        """Before a reset: an episode that has not ended is cut off and leaves nothing."""
        if self._goes_on and self._source is not None:
            self._source.discard_episode()
        self._goes_on = False

    def step(self, over: bool) -> None:
        """After a step."""
        self._goes_on = not over

    def drain(self) -> list[EpisodeStatistics]:
        """The episodes that ended since the last call; one ends with the next reset."""
        return [] if self._source is None else self._source.drain_statistics()


class FiniteEnv(gymnasium.Env[Any, Any]):
    """Refuses NaN and infinity, counts, and keeps infos to itself: RLlib would collect them.

    Attributes:
        episode_return, episode_length: of the running or just finished episode.
        events: of its episodes.

    Raises:
        NonFiniteError: from `reset` and `step`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], events: EventSource) -> None:
        self._env = env
        self.events = events
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.episode_return, self.episode_length = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self.events.begin()
        observation, _ = self._env.reset(seed=seed, options=options)
        require_finite(observation, "the observation")
        self.episode_return, self.episode_length = 0.0, 0
        return observation, {}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, _ = self._env.step(action)
        self.events.step(terminated or truncated)
        require_finite(observation, "the observation")
        reward = scalar_reward(reward)
        require_finite(reward, "the reward")
        self.episode_return += reward
        self.episode_length += 1
        return observation, reward, terminated, truncated, {}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def require_finite(value: Any, what: str) -> None:
    """Refuse NaN and infinity in an array, a number or a dict of them.

    Raises:
        NonFiniteError: names what is not finite.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            require_finite(part, f"{what} {name!r}")
    elif not np.isfinite(value).all():
        raise NonFiniteError(
            f"{what} of a training environment is not finite",
            expected="finite numbers",
            help="guard the division, logarithm or root that makes it",
        )


def agent_name(actor: ActorID) -> str:
    """What RLlib calls an actor: "policy key/agent"."""
    return f"{actor.step_key}/{actor.agent_id}"


def policy_key_of(agent: str) -> str:
    """The policy key in the name of an agent."""
    return agent.rpartition("/")[0]


@attrs.frozen
class StructuredEnvs:
    """Builds multi-agent environments of RLlib's; see `FlatEnvs`."""

    make_env: Callable[[], StructuredEnv]
    transforms: Sequence[Transform]

    def __call__(self, context: dict[str, Any]) -> MultiAgentEnv:
        """One environment; the caller closes it."""
        return StructuredAsMultiAgent(transformed(self.make_env(), self.transforms))


class StructuredAsMultiAgent(MultiAgentEnv):  # type: ignore[misc,unused-ignore]
    """A structured environment whose actors are RLlib's agents, one of which decides at a time.

    Every agent that has acted and not left is paid every reward of the environment, and RLlib adds up what comes
    between two of its decisions: as a step critic of Maze values them, but discounted by decisions instead of time.
    Where an episode is truncated RLlib wants a last observation of each agent; those that do not decide next repeat
    their newest one.

    Attributes:
        episode_return, episode_length: of the running or just finished episode, in rewards of the environment and
            decisions. RLlib's own return counts a reward once for each agent that is paid.
        events: of its episodes.

    Raises:
        NonFiniteError: from `reset` and `step`.
    """

    def __init__(self, env: StructuredEnv) -> None:
        super().__init__()
        structured = env.structured_spaces
        actors = [ActorID(key, agent) for key, n in structured.agent_counts.items() for agent in range(n)]
        self.possible_agents = [agent_name(actor) for actor in actors]
        self.agents = list(self.possible_agents)
        self.observation_spaces = {agent_name(a): plain_space(structured.observation[a.step_key]) for a in actors}
        self.action_spaces = {agent_name(a): plain_space(structured.action[a.step_key]) for a in actors}
        self.events = EventSource(env)
        self._env = env
        self._reports = capability(env, ReportsDepartures)  # type: ignore[type-abstract]
        self._spaces = structured
        self.episode_return, self.episode_length = 0.0, 0
        self._acting = ActorID("", 0)
        self._newest: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode: the observation of the agent that decides first."""
        self.events.begin()
        observation, _ = self._env.reset(seed=seed, options=options)
        self.episode_return, self.episode_length, self._newest = 0.0, 0, {}
        return self._next(observation), {}

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Take the decision of the one agent whose turn it is."""
        agent = agent_name(self._acting)
        observation, reward, terminated, truncated, _ = self._env.step(self._inner(action_dict[agent]))
        self.events.step(bool(terminated or truncated))
        reward = scalar_reward(reward)
        require_finite(reward, "the reward")
        self.episode_return += reward
        self.episode_length += 1
        paid = dict.fromkeys(self._newest, reward)
        left = self._env.is_actor_done()
        if left:
            self._newest.pop(agent)
        gone = [] if self._reports is None else [agent_name(actor) for actor in self._reports.departed_actors()]
        gone = [name for name in gone if self._newest.pop(name, None) is not None]
        repeated = dict(self._newest)
        observations = self._next(observation)
        if terminated or truncated:
            last = {name: own for name, own in observations.items() if name in repeated}
            observations = last if terminated else {**repeated, **last}
        ends = {"__all__": bool(terminated), **({agent: True} if left else {}), **dict.fromkeys(gone, True)}
        return observations, paid, ends, {"__all__": bool(truncated and not terminated)}, {}

    def render(self) -> Any:
        """The environment's drawing."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _next(self, observation: dict[str, Any]) -> dict[str, Any]:
        """The observation of the actor that decides next, kept as its newest."""
        self._acting = self._env.actor_id()
        require_finite(observation, "the observation")
        own = {
            name: _own(space, observation[name])
            for name, space in self._spaces.observation[self._acting.step_key].spaces.items()
        }
        plain = next(iter(own.values())) if len(own) == 1 else own
        self._newest[agent_name(self._acting)] = plain
        return {agent_name(self._acting): plain}

    def _inner(self, action: Any) -> dict[str, Any]:
        heads = self._spaces.action[self._acting.step_key].spaces
        named = action if len(heads) > 1 else {next(iter(heads)): action}
        return {head: _own(space, named[head], for_env=True) for head, space in heads.items()}


def _own(space: spaces.Space[Any], value: Any, *, for_env: bool = False) -> Any:
    """A copy in the space's dtype; Discrete as a scalar, a Python integer for the environment."""
    if isinstance(space, spaces.Discrete):
        return int(value) if for_env else np.array(value, space.dtype)[()]
    return np.array(value, space.dtype)
