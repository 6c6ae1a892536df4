"""Rewards and actions as event files, of environments that report no events of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.events.log_files import EventRows


class StepLog(EnvWrapper):
    """Writes down every reward and every action, as the environment inside sees them.

    The tables are `reward` and `action`, with a column a number of each head. In structured environments rewards say
    whose they are, and there is a table of actions for each policy key.
    """

    def __init__(self, env: StructuredEnv) -> None:
        super().__init__(env)
        self._is_flat = env.structured_spaces.is_flat
        self._episodes: list[dict[str, EventRows]] = []
        self._n_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._n_steps = 0
        self._episodes.append({})
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        actor = self.env.actor_id()
        columns = {name: number for head, value in action.items() for name, number in _numbers(head, value)}
        result = self.env.step(action)
        who = {} if self._is_flat else {"policy_key": actor.step_key, "agent": actor.agent_id}
        self._add("reward", {**who, "value": scalar_reward(result[1])})
        name = "action" if self._is_flat else f"action-{actor.step_key}"
        self._add(name, {**({} if self._is_flat else {"agent": actor.agent_id}), **columns})
        self._n_steps += bool(self.env.is_flat_step_end())
        return result

    def take(self) -> list[EventRows]:
        """The tables of the first episode since the last call that has steps; the others are dropped."""
        episodes, self._episodes = self._episodes, []
        return next((list(tables.values()) for tables in episodes if tables), [])

    def _add(self, name: str, columns: dict[str, Any]) -> None:
        if not self._episodes:
            self._episodes.append({})
        tables = self._episodes[-1]
        if name not in tables:
            tables[name] = EventRows(name, tuple(columns), [])
        tables[name].rows.append((self._n_steps, *columns.values()))


def _numbers(head: str, value: Any) -> list[tuple[str, Any]]:
    """A column a number: `steer` of a single one, `steer.0`, `steer.1` of several."""
    array = np.asarray(value)
    if not array.ndim:
        return [(head, array.item())]
    return [(f"{head}.{index}", number) for index, number in enumerate(array.ravel().tolist())]
