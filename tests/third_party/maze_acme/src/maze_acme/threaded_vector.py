"""The vector mode "acme-threads": groups of environments that threads step at the same time.

For simulators that wait for something, a device or a remote service; those that compute share one interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from maze_acme.options import ThreadsOptions
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick, VectorContext
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


class ThreadedVectorEnv:
    """Implements `VectorEnv` with a sequential batch a thread; ticks are new arrays, so nothing is overwritten.

    Args:
        batches: neighbouring environments each, with equal spaces; closed with this one.
    """

    seeds_every_episode = True
    """See `SeedsEveryEpisode`."""

    def __init__(self, batches: Sequence[SequentialVectorEnv]) -> None:
        self._batches = batches
        self._first = np.cumsum([0, *(batch.n_envs for batch in batches)]).tolist()
        self._groups: dict[PolicyKey, Group] = {}
        self._threads = ThreadPoolExecutor(len(batches), thread_name_prefix="acme")
        self.n_envs: int = self._first[-1]
        self.structured_spaces = batches[0].structured_spaces

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        ranges = zip(self._first, self._first[1:], strict=False)
        parts = [seeds[first:end] for first, end in ranges]
        return self._together([partial(batch.reset, part) for batch, part in zip(self._batches, parts, strict=True)])

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        calls = [partial(batch.step, self._part(actions, number)) for number, batch in enumerate(self._batches)]
        return self._together(calls)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes that ended since the last call."""
        return list(chain.from_iterable(batch.drain_batch_statistics() for batch in self._batches))

    def render(self) -> Any:
        """A frame of the first environment."""
        return self._batches[0].render()

    def close(self) -> None:
        """Close every environment, also when one of them raises."""
        self._threads.shutdown()
        with ExitStack() as stack:
            for batch in self._batches:
                stack.callback(batch.close)

    def _part(self, actions: Mapping[PolicyKey, ArrayDict], number: int) -> dict[PolicyKey, ArrayDict]:
        """The rows of the environments of one batch."""
        first, end = self._first[number], self._first[number + 1]
        parts = {}
        for key, arrays in actions.items():
            rows = slice(*np.searchsorted(self._groups[key].env_index, (first, end)))
            if rows.start < rows.stop:
                parts[key] = {name: array[rows] for name, array in arrays.items()}
        return parts

    def _together(self, calls: Sequence[Callable[[], Tick]]) -> Tick:
        """Run one call a batch at the same time, and put their ticks together."""
        futures = [self._threads.submit(call) for call in calls]
        wait(futures)
        tick = self._merged([future.result() for future in futures])
        self._groups = tick.groups
        return tick

    def _merged(self, ticks: Sequence[Tick]) -> Tick:
        keys = [key for key in self.structured_spaces.policy_keys if any(key in tick.groups for tick in ticks)]
        final_keys = dict.fromkeys(key for tick in ticks for key in tick.final_observation)
        return Tick(
            {key: self._group(key, ticks) for key in keys},
            np.concatenate([tick.reward for tick in ticks]),
            np.concatenate([tick.terminated for tick in ticks]),
            np.concatenate([tick.truncated for tick in ticks]),
            _joined([tick.flat_step_end for tick in ticks]),
            _joined([tick.actor_done for tick in ticks]),
            {key: self._final(key, ticks) for key in final_keys},
            actor_rewards=self._by_env([tick.actor_rewards for tick in ticks]),
            infos=self._by_env([tick.infos for tick in ticks]),
        )

    def _group(self, key: PolicyKey, ticks: Sequence[Tick]) -> Group:
        found = [
            (first, tick.groups[key]) for first, tick in zip(self._first, ticks, strict=False) if key in tick.groups
        ]
        index = np.concatenate([first + group.env_index for first, group in found])
        agents = np.concatenate([group.agent_id for _, group in found])
        return Group(index, agents, _stacked([group.observation for _, group in found]), len(index) == self.n_envs)

    def _final(self, key: PolicyKey, ticks: Sequence[Tick]) -> FinalObservation:
        pairs = zip(self._first, ticks, strict=False)
        found = [(first, tick.final_observation[key]) for first, tick in pairs if key in tick.final_observation]
        index = np.concatenate([first + final.env_index for first, final in found])
        observation = _stacked([final.observation for _, final in found])
        return FinalObservation(index, observation, _joined([final.agent_id for _, final in found]))

    def _by_env(self, parts: Sequence[Mapping[int, Any]]) -> dict[int, Any]:
        return {
            first + index: value
            for first, part in zip(self._first, parts, strict=False)
            for index, value in part.items()
        }


def threaded_batch(context: VectorContext, options: ThreadsOptions) -> ThreadedVectorEnv:
    """As many groups as threads, or as environments where these are fewer."""
    batches: list[SequentialVectorEnv] = []
    first = context.first_index
    try:
        for part in np.array_split(np.arange(context.n_envs), min(options.n_threads, context.n_envs)):
            batches.append(SequentialVectorEnv([context.env_factory] * len(part), first_index=first))
            first += len(part)
    except BaseException:
        for batch in batches:
            batch.close()
        raise
    return ThreadedVectorEnv(batches)


def _stacked(parts: Sequence[ArrayDict]) -> ArrayDict:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _joined(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None
