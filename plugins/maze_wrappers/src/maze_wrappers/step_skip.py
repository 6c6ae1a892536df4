"""Decisions that count for several steps of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.errors import RequestError
from maze_runtime.env.conversion import ActionConversion
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.simulation import HasNoop
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.known_names import require_known
from maze_wrappers.options import StepSkipOptions

OWNER = "maze-wrappers: step-skip"
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class StepSkip(EnvWrapper):
    """After each flat step n_steps − 1 further ones are taken with the same actions, or with those that do nothing.

    Rewards are summed. Skipping ends with the episode, and where an actor is asked that has not decided in this flat
    step.

    Raises:
        RequestError: `noop` is no action of the environment, or mode "noop" finds no action that changes nothing.
    """

    def __init__(self, env: StructuredEnv, options: StepSkipOptions) -> None:
        super().__init__(env)
        self.options = options
        self._noops = _noops(env.structured_spaces, options.noop) if options.noop is not None else None
        if options.mode == "noop" and self._noops is None:
            _require_noops(env)
        self._decided: dict[ActorID, Action] = {}
        self._actor_rewards: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._decided = {}
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> StepResult:
        """Take one decision, and at the end of a flat step the skipped ones."""
        self._decided[self.env.actor_id()] = {head: np.copy(value) for head, value in action.items()}
        result = self.env.step(action)
        if not self.env.is_flat_step_end():
            return result
        self._actor_rewards = self.env.get_actor_rewards()
        for _ in range(self.options.n_steps - 1):
            if result[2] or result[3] or self.env.actor_id() not in self._decided:
                break
            result = self._skip(result)
        self._decided = {}
        return result

    def get_actor_rewards(self) -> Any | None:
        """Those of the first flat step and, where they have the same form, of the skipped ones."""
        return self._actor_rewards

    def clone_from(self, other: StepSkip) -> None:
        """Go on from where another one is."""
        super().clone_from(other)
        self._decided, self._actor_rewards = dict(other._decided), other._actor_rewards

    def _skip(self, result: StepResult) -> StepResult:
        """One more flat step, its rewards added to those of `result`."""
        observation, reward, terminated, truncated, info = result
        while True:
            actor = self.env.actor_id()
            if actor not in self._decided:
                return observation, reward, terminated, truncated, info
            observation, added, terminated, truncated, info = self.env.step(self._repeated(actor))
            reward += added
            if terminated or truncated or self.env.is_flat_step_end():
                self._add_actor_rewards(self.env.get_actor_rewards())
                return observation, reward, terminated, truncated, info

    def _add_actor_rewards(self, rewards: Any | None) -> None:
        if (
            self._actor_rewards is not None
            and rewards is not None
            and np.shape(rewards) == np.shape(self._actor_rewards)
        ):
            self._actor_rewards = np.asarray(self._actor_rewards) + np.asarray(rewards)

    def _repeated(self, actor: ActorID) -> Action:
        if self.options.mode == "sticky":
            return {head: np.copy(value)[()] for head, value in self._decided[actor].items()}
        if self._noops is not None:
            return {head: np.copy(value)[()] for head, value in self._noops[actor.step_key].items()}
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


def _noops(inner: StructuredSpaces, given: Mapping[str, Any]) -> dict[PolicyKey, Action]:
    """The action that was given, for each policy key those of its names that it has."""
    known = {head for space in inner.action.values() for head in space.spaces}
    require_known(given, known, "there is no action {}", option="noop", owner=OWNER)
    return {key: _noop(space, given) for key, space in inner.action.items()}


def _noop(space: spaces.Dict, given: Mapping[str, Any]) -> Action:
    action = {head: np.asarray(given[head], leaf.dtype)[()] for head, leaf in space.spaces.items() if head in given}
    if not space.contains(action):
        raise RequestError(
            "noop is no action of the environment",
            received=str(dict(given)),
            expected=str(space),
            option="noop",
            owner=OWNER,
            help="give a value for each name",
        )
    return action
