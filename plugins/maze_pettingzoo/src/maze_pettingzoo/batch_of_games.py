"""Batches of the user's own games: many parallel games in one object, by import path; one game of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from maze_gym.user_batch import require_size
from maze_kernel.errors import EnvError
from maze_kernel.selection import own_copies
from maze_pettingzoo.env import PettingZooEnv
from maze_pettingzoo.options import PettingZooOptions, PettingZooVectorOptions
from maze_pettingzoo.returned import of_games_reset, of_games_step
from maze_runtime.env.importing import imported

OWNER = "maze-pettingzoo"

ByAgent = Mapping[str, Any]

_NEEDED = ("num_envs", "possible_agents", "metadata", "observation_space", "action_space", "reset", "step")


@runtime_checkable
class BatchOfGames(Protocol):
    """PettingZoo's `ParallelEnv` with a leading dimension: N games of the same agents, all of them stepped by one call.

    Every agent acts at every step, and an episode ends for all agents of a game at once.

    Attributes:
        num_envs: N.
        possible_agents: the names, in the order in which they decide.
        metadata: `metadata["autoreset_mode"]` is Gymnasium's SAME_STEP or DISABLED. With the first, a row whose episode
            ended shows the next one already, and `infos[agent]["final_obs"]`, (N, …), has its last observation; with
            the second it waits for `reset(options={"reset_mask": …})`.
    """

    num_envs: int
    possible_agents: Any
    metadata: Any

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Of one game."""
        ...

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Of one game."""
        ...

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ByAgent, Mapping[str, Any]]:
        """Begin all games, or the rows `options["reset_mask"]`, (N,) bool: observations by agent, (N, …), and infos.

        Masks of discrete actions are `infos[agent]["action_mask"]`, (N, choices) or a dict of such by head, or in the
        observation.
        """
        ...

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, Any, Any, Mapping[str, Any]]:
        """One step of all games.

        Args:
            actions: by agent, (N, …).

        Returns:
            Observations (N, …), rewards (N,), terminated and truncated (N,) by agent, and infos. The flags may also be
            arrays (N,) for all agents.
        """
        ...


def make_batch(n_envs: int, options: PettingZooVectorOptions) -> BatchOfGames:
    """What the entry makes.

    Raises:
        RequestError: the entry cannot be imported.
        EnvError: it makes no batch of games, or one of another size.
    """
    entry: Any = options.entry
    if isinstance(entry, str):
        entry = imported(entry, owner=OWNER, option="entry")
    batch = entry(num_envs=n_envs, **own_copies(dict(options.kwargs)))
    if not isinstance(batch, BatchOfGames):
        missing = [name for name in _NEEDED if not hasattr(batch, name)]
        raise EnvError(
            "the entry makes no batch of games",
            received=f"{type(batch).__module__}.{type(batch).__qualname__}, without {', '.join(missing)}",
            expected="what maze_pettingzoo.batch_of_games.BatchOfGames describes",
            option="entry",
            owner=OWNER,
            help='a single game is [env] use = "pettingzoo" with id = "module:Class"; '
            'environments of one agent are use = "gym-vector"',
        )
    require_size(batch, n_envs, OWNER)
    return batch


def make_env(options: PettingZooVectorOptions) -> PettingZooEnv:
    """A batch of one as a single game: for evaluations, rollouts, and wrappers that see single environments."""
    played = PettingZooOptions(id="", policies=options.policies, rewards=options.rewards)
    return PettingZooEnv(parallel_to_aec(FirstGame(make_batch(1, options))), played)


class FirstGame(ParallelEnv):  # type: ignore[misc]
    """The first game of a batch.

    It is stepped where the batch has no other; of a larger one it tells spaces, agents and masks.

    Args:
        batch: closed with this game.
    """

    def __init__(self, batch: BatchOfGames) -> None:
        self.batch = batch
        self.metadata = {"name": type(batch).__name__, **batch.metadata, "is_parallelizable": True}
        self.render_mode = getattr(batch, "render_mode", None)
        self.possible_agents = list(batch.possible_agents)
        self.agents: list[str] = []
        self.infos: dict[str, dict[str, Any]] = {}
        self.observation_spaces = {agent: batch.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: batch.action_space(agent) for agent in self.possible_agents}
        self._seen = {agent: batch_space(space, batch.num_envs) for agent, space in self.observation_spaces.items()}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode."""
        observations, infos = of_games_reset(self.batch.reset(seed=seed, options=options), self.possible_agents)
        self.agents, self.infos = list(self.possible_agents), self._first_infos(infos)
        return self._first_rows(observations), self.infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """One step of all agents."""
        # None for spaces without arrays; `concatenate` takes it, though its annotation does not say so
        taken = {
            agent: concatenate(space, [actions[agent]], create_empty_array(space, 1))  # type: ignore[arg-type]
            for agent, space in self.action_spaces.items()
        }
        observations, rewards, terminated, truncated, infos = of_games_step(
            self.batch.step(taken), self.possible_agents, 1
        )
        over = {agent: (_flag(terminated, agent), _flag(truncated, agent)) for agent in self.possible_agents}
        last = {
            agent: infos[agent]["final_obs"]
            for agent in self.possible_agents
            if any(over[agent]) and "final_obs" in infos.get(agent, {})
        }
        self.infos = self._first_infos(infos)
        results = (
            self._first_rows({**observations, **last}),
            {agent: float(np.asarray(rewards[agent])[0]) for agent in self.possible_agents},
            {agent: flags[0] for agent, flags in over.items()},
            {agent: flags[1] for agent, flags in over.items()},
            self.infos,
        )
        self.agents = [agent for agent in self.agents if not any(over[agent])]
        return results

    def render(self) -> Any:
        """The batch's drawing of its first game; None where it draws none."""
        frames = self.batch.render() if hasattr(self.batch, "render") else None
        return frames[0] if isinstance(frames, (tuple, list)) else frames

    def close(self) -> None:
        """Close the batch, where it can be."""
        if hasattr(self.batch, "close"):
            self.batch.close()

    def _first_rows(self, observations: ByAgent) -> dict[str, Any]:
        return {agent: next(iter(iterate(space, observations[agent]))) for agent, space in self._seen.items()}

    def _first_infos(self, infos: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {
            agent: {name: _first(value) for name, value in infos.get(agent, {}).items() if name != "final_obs"}
            for agent in self.possible_agents
        }


def _first(value: Any) -> Any:
    """Of the first game; of masks by head, or by dimension, each."""
    if isinstance(value, Mapping):
        return {name: _first(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and value and np.ndim(value[0]) == 2:
        return [_first(part) for part in value]
    return np.asarray(value)[0]


def _flag(flags: Any, agent: str) -> bool:
    return bool(np.asarray(flags[agent] if isinstance(flags, Mapping) else flags)[0])
