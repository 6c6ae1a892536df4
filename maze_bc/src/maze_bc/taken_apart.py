"""Flat recordings that teach a structured version of their environment: whole decisions are taken apart.

The action conversion of each policy key says what its part of a recorded MazeAction is, and the core environment what
that part makes of the MazeState, before the next key decides (`CoreEnv.preview_sub_step`). Nothing is stepped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maze_bc.data import OWNER, Decisions, Episode
from maze_bc.processors import Processor
from maze_bc.recorded_objects import begin_episode, objects_of
from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, Observation, PolicyKey, StructuredEnv
from maze_kernel.errors import EnvError, MazeError, RequestError
from maze_runtime.datasets.maze_episodes import HoldsMazeEpisodes, MazeStep
from maze_runtime.env.batching import stack_rows
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.outside import first_actor
from maze_runtime.env.simulation import Recordable

MOST_SUB_STEPS = 1000
"""A flat step that goes on for longer does not end."""


class _SubStep(NamedTuple):
    key: PolicyKey
    agent: int
    observation: Observation
    action: Action


class TakenApart:
    """Episodes of a flat environment as decisions of the policy keys of a structured one.

    Args:
        recorded: all of them, with MazeStates and MazeActions.
        env: an environment like those trained in, without transforms.
        processor: says of the flat decisions which are learnt from; None: all.

    Raises:
        RequestError: its core environment does not say what a sub-step makes of a state.
    """

    def __init__(self, recorded: HoldsMazeEpisodes, env: StructuredEnv, processor: Processor | None = None) -> None:
        self._recorded = recorded
        self._processor = processor
        self._env: Any = env
        simulation: Any = capability(env, Recordable)
        self._core_env = simulation.core_env
        begin_episode(self._core_env)
        self._conversions = simulation.action_conversions
        self.spaces = env.structured_spaces
        if type(self._core_env).preview_sub_step is CoreEnv.preview_sub_step:
            raise RequestError(
                "a flat recording cannot teach this environment: it does not say what follows a sub-step",
                received=f"policy keys {', '.join(recorded.spaces.policy_keys)}; {type(self._core_env).__name__}",
                expected=f"decisions of the policy keys {', '.join(self.spaces.policy_keys)}",
                option="demonstrations",
                owner=OWNER,
                help="write its method preview_sub_step, or record the structured environment",
            )

    @cached_property
    def lengths(self) -> Sequence[int]:
        """Decisions of each episode that are learnt from; known when all were read once."""
        return tuple(
            sum(len(decisions.without_the_rest().place) for decisions in self.read(index).values())
            for index in range(len(self._recorded.lengths))
        )

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode.

        Raises:
            EnvError: a conversion cannot find its part in a MazeAction, or a flat step does not end.
        """
        objects = objects_of(self._recorded, index, self._core_env)
        kept = np.ones(len(objects.steps), bool)
        if self._processor is not None:
            kept = self._processor(self._recorded.read(index))
        rows: dict[PolicyKey, list[tuple[int, bool, _SubStep]]] = {}
        sub_steps = ((flat, sub_step) for flat, step in enumerate(objects.steps) for sub_step in self._sub_steps(step))
        for place, (flat, sub_step) in enumerate(sub_steps):
            rows.setdefault(sub_step.key, []).append((place, bool(kept[flat]), sub_step))
        return {
            key: Decisions(
                stack_rows(self.spaces.observation[key], [sub_step.observation for _, _, sub_step in own]),
                stack_rows(self.spaces.action[key], [sub_step.action for _, _, sub_step in own]),
                np.array([sub_step.agent for _, _, sub_step in own], np.int64),
                np.array([place for place, _, _ in own], np.int64),
                np.array([is_kept for _, is_kept, _ in own], bool),
            )
            for key, own in rows.items()
        }

    def close(self) -> None:
        """Close the dataset and the environment."""
        self._recorded.close()
        self._env.close()

    def _sub_steps(self, step: MazeStep) -> Iterator[_SubStep]:
        """The decisions of one flat step."""
        state, (key, agent) = step.maze_state, first_actor(self.spaces)
        for _ in range(MOST_SUB_STEPS):
            yield self._sub_step(key, agent, state, step.maze_action)
            following = self._core_env.preview_sub_step(state, self._part(key, state, step.maze_action))
            if following is None:
                return
            state, (key, agent) = following
        raise EnvError(
            "a flat step does not end",
            received=f"{MOST_SUB_STEPS} sub-steps by preview_sub_step",
            owner=type(self._core_env).__name__,
        )

    def _sub_step(self, key: PolicyKey, agent: int, state: Any, whole: Any) -> _SubStep:
        """What a policy key sees and its part of the decision, outside of the wrappers."""
        try:
            observation, action = self._env.to_spaces(key, state, whole)
        except MazeError:
            raise
        except Exception as error:
            raise self._not_apart(key, whole) from error
        if action is None:
            raise EnvError(f"a decision of policy key {key!r} was recorded without its MazeAction", owner=OWNER)
        return _SubStep(key, agent, observation, action)

    def _part(self, key: PolicyKey, state: Any, whole: Any) -> Any:
        """The MazeAction of a policy key's part."""
        conversion = self._conversions[key]
        return conversion.space_to_maze(conversion.maze_to_space(whole, state), state)

    def _not_apart(self, key: PolicyKey, whole: Any) -> EnvError:
        conversion = type(self._conversions[key]).__name__
        return EnvError(
            f"the action conversion of policy key {key!r} does not find its part in a recorded MazeAction",
            received=f"{type(whole).__name__}: {str(whole)[:200]}",
            owner=f"{conversion}.maze_to_space",
            help="let maze_to_space take the MazeAction of the flat environment too, and return the part of this key",
        )
