"""Collects the decisions of one episode in growing arrays, which the next episode uses again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import EnvError
from maze_runtime.datasets.contract import Episode, EpisodeInfo
from maze_runtime.env.batching import layout

_FIRST_CAPACITY = 64

STEP_FIELDS = {
    "key_index": np.int64,
    "agent_id": np.int64,
    "reward": np.float64,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "flat_step_end": np.bool_,
    "actor_done": np.bool_,
}
"""What is kept of every decision, in this order, and as what."""


class _Column:
    """Rows of one array, appended one by one; memory doubles when it is full."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._array = np.zeros((_FIRST_CAPACITY, *shape), dtype)
        self._n = 0

    def append(self, value: Any) -> None:
        if self._n == len(self._array):
            self._array = np.concatenate([self._array, np.zeros_like(self._array)])
        self._array[self._n] = value
        self._n += 1

    @property
    def rows(self) -> np.ndarray:
        """(n, …), a view that the next `clear` gives away."""
        return self._array[: self._n]

    def clear(self) -> None:
        self._n = 0


class EpisodeBuilder:
    """The episode in progress of one environment.

    Args:
        spaces: of the environment.
        actions_only: forget the observations.
    """

    def __init__(self, spaces: StructuredSpaces, *, actions_only: bool = False) -> None:
        self._keys = spaces.policy_keys
        self._index = {key: index for index, key in enumerate(self._keys)}
        self._actions_only = actions_only
        self._observation = {key: {} if actions_only else _columns(spaces.observation[key]) for key in self._keys}
        self._action = {key: _columns(spaces.action[key]) for key in self._keys}
        self._layouts = {key: layout(spaces.observation[key]) for key in self._keys}
        self._results: list[tuple[Any, ...]] = []
        self._actor_reward: list[float] = []
        self._n_before = 0  # decisions before the present flat step
        self._divided = False
        self._left_after: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._results)

    def observe(self, actor: ActorID, observation: Mapping[str, Any]) -> None:
        """What the actor sees that decides next."""
        for name, column in self._observation[actor.step_key].items():
            column.append(observation[name])

    def decide(self, actor: ActorID, action: Mapping[str, Any]) -> None:
        """What it does."""
        for name, column in self._action[actor.step_key].items():
            column.append(action[name])

    def result(
        self,
        actor: ActorID,
        reward: float,
        terminated: bool,
        truncated: bool,
        *,
        flat_step_end: bool = True,
        actor_done: bool = False,
        actor_rewards: Any | None = None,
        departed: Sequence[ActorID] = (),
    ) -> None:
        """What came of it.

        Args:
            actor, reward, terminated, truncated, flat_step_end, actor_done: see `Episode`.
            actor_rewards: those of the decisions of the flat step that ended with this one.
            departed: who else left.

        Raises:
            EnvError: `actor_rewards` are not one a decision.
        """
        # One tuple costs a tenth of a write to each of eight arrays.
        self._results.append(
            (self._index[actor.step_key], actor.agent_id, reward, terminated, truncated, flat_step_end, actor_done)
        )
        self._actor_reward.append(reward)
        for other in departed:
            self._leave(other)
        if actor_rewards is not None:
            rewards = np.asarray(actor_rewards, np.float64).reshape(-1)
            n_decisions = len(self._results) - self._n_before
            if len(rewards) != n_decisions:
                raise EnvError(
                    "get_actor_rewards() does not give one reward a sub-step",
                    received=f"{len(rewards)} rewards",
                    expected=f"{n_decisions}: the decisions of the flat step that just ended",
                    owner=f"decision {len(self._results) - 1} of the recorded episode",
                    help="return one reward for each decision since the last flat step, or None",
                )
            self._actor_reward[self._n_before :] = rewards.tolist()
            self._divided = True
        if flat_step_end:
            self._n_before = len(self._results)

    def finish(self, info: Mapping[str, Any], last: tuple[ActorID, Mapping[str, Any]] | None) -> Episode:
        """The episode; its arrays are views that stay as they are until `clear`.

        Args:
            info: fields of `EpisodeInfo` that are not counted here.
            last: who would decide next and what it sees; None where the last step failed.
        """
        last = None if self._actions_only else last
        columns = zip(*self._results, strict=True) if self._results else ((),) * len(STEP_FIELDS)
        step: dict[str, Any] = {
            name: np.array(column, STEP_FIELDS[name]) for name, column in zip(STEP_FIELDS, columns, strict=True)
        }
        n_decisions = len(step["reward"])
        return Episode(
            info=EpisodeInfo(
                n_decisions=n_decisions,
                n_env_steps=int(step["flat_step_end"].sum()),
                total_reward=float(step["reward"].sum()),
                terminated=bool(step["terminated"][-1:].any()),
                truncated=bool(step["truncated"][-1:].any()),
                **info,
            ),
            policy_keys=self._keys,
            **step,
            actor_reward=np.array(self._actor_reward) if self._divided else None,
            observation=self._decided(self._observation, step["key_index"]),
            action=self._decided(self._action, step["key_index"]),
            final_key=None if last is None else last[0].step_key,
            final_observation={} if last is None else self._final(*last),
            final_agent=None if last is None else last[0].agent_id,
            left_after=self._departures(n_decisions),
        )

    def clear(self) -> None:
        """Begin the next episode."""
        by_key = (*self._observation.values(), *self._action.values())
        for columns in by_key:
            for column in columns.values():
                column.clear()
        self._results.clear()
        self._actor_reward.clear()
        self._n_before = 0
        self._divided = False
        self._left_after.clear()

    def _leave(self, actor: ActorID) -> None:
        """Note at an actor's last decision that it left with the newest one; nothing where it never decided."""
        who = (self._index[actor.step_key], actor.agent_id)
        newest = len(self._results) - 1
        last = next((t for t in range(newest, -1, -1) if self._results[t][:2] == who), None)
        if last is not None:
            self._left_after[last] = newest

    def _departures(self, n_decisions: int) -> np.ndarray | None:
        if not self._left_after:
            return None
        left_after = np.full(n_decisions, -1)
        left_after[list(self._left_after)] = list(self._left_after.values())
        return left_after

    def _decided(
        self, columns: Mapping[PolicyKey, Mapping[str, _Column]], key_index: np.ndarray
    ) -> dict[PolicyKey, ArrayDict]:
        """Rows of decisions that have a result; a step that raised has none."""
        counts = {key: int((key_index == index).sum()) for key, index in self._index.items()}
        return {
            key: {name: column.rows[: counts[key]] for name, column in columns[key].items()}
            for key in self._keys
            if counts[key]
        }

    def _final(self, actor: ActorID, observation: Mapping[str, Any]) -> ArrayDict:
        leaves = self._layouts[actor.step_key]
        return {name: np.array(observation[name], leaf.dtype).reshape(leaf.shape) for name, leaf in leaves.items()}


def _columns(space: Any) -> dict[str, _Column]:
    return {name: _Column(leaf.shape, leaf.dtype) for name, leaf in layout(space).items()}
