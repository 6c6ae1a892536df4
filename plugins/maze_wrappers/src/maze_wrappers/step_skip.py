"""Decisions that count for several steps of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.env.conversion import ActionConversion
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.simulation import HasNoop
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.given_actions import copied, given_actions
from maze_wrappers.options import StepSkipOptions

OWNER = "maze-wrappers: step-skip"
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class StepSkip(EnvWrapper):
    """After each flat step n_steps − 1 further ones are taken with the same actions, or with those that do nothing.

    Rewards are summed. Skipping ends with the episode, and where an actor is asked that has not decided in this flat
    step. With `max_of` above 1, Box observations are the elementwise maximum over the last of those that these flat
    steps showed to the same actor.

    Raises:
        RequestError: `noop` is no action of the environment, or mode "noop" finds no action that changes nothing.
    """

    def __init__(self, env: StructuredEnv, options: StepSkipOptions) -> None:
        super().__init__(env)
        self.options = options
        self._noops = None
        if options.noop is not None:
            self._noops = given_actions(env.structured_spaces, options.noop, "noop", OWNER)
        if options.mode == "noop" and self._noops is None:
            _require_noops(env)
        self._decided: dict[ActorID, Action] = {}
        self._actor_rewards: Any = None
        self._reports = capability(env, ReportsDepartures)  # type: ignore[type-abstract]
        self._departed: list[ActorID] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._decided = {}
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> StepResult:
        """Take one decision, and at the end of a flat step the skipped ones."""
        self._decided[self.env.actor_id()] = copied(action)
        self._departed = []
        result = self._step(action)
        if not self.env.is_flat_step_end():
            return result
        self._actor_rewards = self.env.get_actor_rewards()
        shown = self._shown(result)
        for _ in range(self.options.n_steps - 1):
            if result[2] or result[3] or self.env.actor_id() not in self._decided:
                break
            result = self._skip(result)
            shown += self._shown(result)
        self._decided = {}
        return (self._maximum(shown), *result[1:]) if shown else result

    def get_actor_rewards(self) -> Any | None:
        """Those of the first flat step and, where they have the same form, of the skipped ones."""
        return self._actor_rewards

    def departed_actors(self) -> Sequence[ActorID]:
        """Those of all steps since the decision."""
        return self._departed

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as they are seen outside.

        Raises:
            EnvError: an observation takes several states, with `max_of` above 1.
        """
        if self.options.max_of > 1:
            raise EnvError(
                "a recorded state cannot be mapped back: an observation is the maximum of several",
                received=f"max_of = {self.options.max_of}",
                owner=OWNER,
                help="record observations and actions instead",
            )
        return super().to_spaces(policy_key, maze_state, maze_action)

    def clone_from(self, other: StepSkip) -> None:
        """Go on from where another one is."""
        super().clone_from(other)
        self._decided, self._actor_rewards = dict(other._decided), other._actor_rewards

    def _shown(self, result: StepResult) -> list[tuple[ActorID, Observation]]:
        """Who sees what, where that is still needed when the next step has overwritten it."""
        if self.options.max_of == 1:
            return []
        return [(self.env.actor_id(), {name: np.copy(value)[()] for name, value in result[0].items()})]

    def _maximum(self, shown: list[tuple[ActorID, Observation]]) -> Observation:
        actor, last = shown[-1]
        seen = [observation for who, observation in shown[-self.options.max_of :] if who == actor]
        leaves = self.structured_spaces.observation[actor.step_key].spaces
        boxes = [name for name in last if isinstance(leaves[name], spaces.Box) and not name.endswith("_mask")]
        return {**last, **{name: np.maximum.reduce([observation[name] for observation in seen]) for name in boxes}}

    def _skip(self, result: StepResult) -> StepResult:
        """One more flat step, its rewards added to those of `result`."""
        observation, reward, terminated, truncated, info = result
        while True:
            actor = self.env.actor_id()
            if actor not in self._decided:
                return observation, reward, terminated, truncated, info
            observation, added, terminated, truncated, info = self._step(self._repeated(actor))
            reward += added
            if terminated or truncated or self.env.is_flat_step_end():
                self._add_actor_rewards(self.env.get_actor_rewards())
                return observation, reward, terminated, truncated, info

    def _step(self, action: Action) -> StepResult:
        result = self.env.step(action)
        if self._reports is not None:
            self._departed += self._reports.departed_actors()
        return result

    def _add_actor_rewards(self, rewards: Any | None) -> None:
        if (
            self._actor_rewards is not None
            and rewards is not None
            and np.shape(rewards) == np.shape(self._actor_rewards)
        ):
            self._actor_rewards = np.asarray(self._actor_rewards) + np.asarray(rewards)

    def _repeated(self, actor: ActorID) -> Action:
        if self.options.mode == "sticky":
            return copied(self._decided[actor])
        if self._noops is not None:
            return copied(self._noops[actor.step_key])
        source = capability(self.env, HasNoop)  # type: ignore[type-abstract]
        assert source is not None, "asked for when it was built"
        return source.noop_action()


def _require_noops(env: StructuredEnv) -> None:
    """Refuse an environment that knows no action that changes nothing, before anything is played."""
    source = capability(env, HasNoop)  # type: ignore[type-abstract]
    conversions = source.action_conversions if isinstance(source, MazeEnv) else {}
    silent = [key for key, part in conversions.items() if type(part).noop_action is ActionConversion.noop_action]
    if source is not None and not silent:
        return
    raise RequestError(
        "the environment knows no action that changes nothing",
        received=f"no noop_action in the action conversion of policy key {silent[0]!r}" if silent else None,
        option="mode",
        owner=OWNER,
        help='give one, e.g. noop = { action = 0 }, or take mode = "sticky"',
    )
