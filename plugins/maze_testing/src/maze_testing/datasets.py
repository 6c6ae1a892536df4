"""Conformance of datasets: whole episodes that fit their spaces, the same however often and wherever they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import StructuredEnv, StructuredSpaces
from maze_kernel.contracts.workers import WorkerPool
from maze_runtime.datasets.contract import DatasetContext, Episode, EpisodeInfo, EpisodeSource
from maze_runtime.datasets.pooled_source import PooledSource
from maze_runtime.workers.inline import InlinePool
from maze_testing.conformance import require, require_member, same


def check_dataset(
    factory: Callable[[DatasetContext], EpisodeSource],
    make_env: Callable[[], StructuredEnv],
    *,
    n_episodes: int = 5,
    pool: WorkerPool | None = None,
) -> None:
    """Episodes lie in their spaces and agree with what is said of them; opening and reading them again changes nothing.

    Args:
        factory: the dataset's target with its options bound; survives transport to the workers of `pool`.
        make_env: an environment that the episodes fit; survives it too.
        n_episodes: look at the first so many, each row of them.
        pool: opens the dataset on its workers as well, and is closed; None: in this process.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    open_source = partial(factory, DatasetContext(make_env=make_env))
    source = open_source()
    require(isinstance(source, EpisodeSource), "it lacks a method or attribute of EpisodeSource")
    require(bool(source.name) and isinstance(source.name, str), "it has no name for messages")
    require(isinstance(source.spaces, StructuredSpaces), "its spaces are no StructuredSpaces")
    require(len(source.lengths) > 0, "it opens without any episode; raise RequestError instead")
    indices = range(min(n_episodes, len(source.lengths)))
    infos = source.infos()
    require([info.n_decisions for info in infos] == list(source.lengths), "infos() and lengths say different things")
    episodes = [source.read(index) for index in indices]
    for index, episode in enumerate(episodes):
        _check_info(episode, infos[index], f"episode {index}")
        _check_decisions(episode, source.spaces, f"episode {index}")
        _check_arrays(episode, source.spaces, f"episode {index}")
    source.expect(list(indices))
    again = [source.read(index) for index in reversed(indices)][::-1]
    require(same(_plain(episodes), _plain(again)), "read in another order, its episodes differ")
    source.close()
    with closing(PooledSource(pool or InlinePool(), open_source)) as there:
        require(there.spaces == source.spaces, "opened again, it has other spaces")
        require(same(_plain(episodes), _plain([there.read(index) for index in indices])), "opened again, it differs")


def _check_info(episode: Episode, info: EpisodeInfo, what: str) -> None:
    """What is said of an episode, against its arrays."""
    own = attrs.evolve(episode.info, episode_id=info.episode_id)
    require(own == info, f"{what} has another info than infos() gives")
    require(len(episode) == info.n_decisions, f"{what} has {len(episode)} decisions, its info says {info.n_decisions}")
    require(int(episode.flat_step_end.sum()) == info.n_env_steps, f"{what} has another number of environment steps")
    require(bool(np.isclose(episode.reward.sum(), info.total_reward)), f"the rewards of {what} are not total_reward")
    ends = (bool(episode.terminated[-1:].any()), bool(episode.truncated[-1:].any()))
    require(ends == (info.terminated, info.truncated), f"{what} ends otherwise than its info says")


def _check_decisions(episode: Episode, spaces: StructuredSpaces, what: str) -> None:
    """One row a decision, of an actor that there is, and no end before the last of them."""
    require(tuple(episode.policy_keys) == tuple(spaces.policy_keys), f"{what} has other policy keys than the spaces")
    fields = ("key_index", "agent_id", "reward", "terminated", "truncated", "flat_step_end", "actor_done")
    for name in fields:
        shape = getattr(episode, name).shape
        require(shape == (len(episode),), f"{name} of {what} has shape {shape}, not ({len(episode)},)")
    ended = episode.terminated | episode.truncated
    require(not ended[:-1].any(), f"{what} goes on after its end")
    counts = [spaces.agent_counts[key] for key in spaces.policy_keys]
    for key_index, agent in zip(episode.key_index.tolist(), episode.agent_id.tolist(), strict=True):
        require(0 <= key_index < len(counts), f"{what} has a decision of policy key number {key_index}")
        require(0 <= agent < counts[key_index], f"{what} has a decision of agent {agent} of {counts[key_index]}")


def _check_arrays(episode: Episode, spaces: StructuredSpaces, what: str) -> None:
    """Rows in their spaces; observations may be missing altogether, where only actions were recorded."""
    for key in episode.policy_keys:
        n = len(episode.decisions_of(key))
        for kind, arrays, space in (
            ("observation", episode.observation, spaces.observation[key]),
            ("action", episode.action, spaces.action[key]),
        ):
            if not n or (kind == "observation" and not episode.observation):
                continue
            require(key in arrays, f"{what} has no {kind}s of policy key {key!r}, which decided")
            for name, array in arrays[key].items():
                require(len(array) == n, f"{kind} {name!r} of {what} has {len(array)} rows for {n} decisions")
            for row in range(n):
                values = {name: array[row] for name, array in arrays[key].items()}
                require_member(space, values, f"{kind} {row} of {what}")
    if episode.final_key is not None:
        space = spaces.observation[episode.final_key]
        require_member(space, episode.final_observation, f"the final observation of {what}")


def _plain(episodes: list[Episode]) -> list[Any]:
    """Episodes as `same` compares them; an identifier may be new with every reading."""
    return [
        {name: value for name, value in attrs.asdict(episode, recurse=False).items() if name != "info"}
        for episode in episodes
    ]
