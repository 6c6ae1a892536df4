"""Decisions that count for several steps of the environment."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.conversion import ActionConversion
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.graph_links import links_of
from maze_runtime.env.mask_reading import forbids, mask_names, masks_of
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.simulation import HasNoop
from maze_runtime.env.wrapper import EnvWrapper
from maze_wrappers.decision_rewards import DecisionRewards
from maze_wrappers.given_actions import copied, given_actions
from maze_wrappers.options import StepSkipOptions
from maze_wrappers.whole_games import refuse_whole_games

OWNER = "maze-wrappers: step-skip"
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class StepSkip(EnvWrapper):
    """After each flat step n_steps − 1 further ones are taken with the same actions, or with those that do nothing.

    Rewards are summed; those that the environment divides go to the last decisions of who took the sub-steps. Skipping
    ends with the episode, where an actor is asked that has not decided in this flat step or has left since, and where
    a mask forbids the action. Within a flat step of the environment that one is decided to its end first. With
    `max_of` above 1, Box observations are the elementwise maximum over the last of those that these flat steps showed
    to the same actor.

    Raises:
        RequestError: `noop` is no action of the environment, or mode "noop" finds no action that changes nothing, or a
            whole game is one flat step.
    """

    def __init__(self, env: StructuredEnv, options: StepSkipOptions) -> None:
        super().__init__(env)
        refuse_whole_games(env.structured_spaces, OWNER)
        self.options = options
        self._noops = None
        if options.noop is not None:
            self._noops = given_actions(env.structured_spaces, options.noop, "noop", OWNER)
        if options.mode == "noop" and self._noops is None:
            _require_noops(env)
        of = env.structured_spaces
        self._masks = {key: mask_names(of.observation[key], of.action[key]) for key in of.policy_keys}
        self._maximal = {key: _boxes(of.observation[key], of.action[key]) for key in of.policy_keys}
        self._reports = capability(env, ReportsDepartures)  # type: ignore[type-abstract]
        self._rewards = DecisionRewards()
        self._decided: dict[ActorID, Action] = {}
        self._is_over = True
        self._actor: ActorID | None = None
        self._departed: list[ActorID] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._is_over = True
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> StepResult:
        """Take one decision, and at the end of a flat step the skipped ones."""
        if self._is_over:
            self._decided = {}
            self._rewards.begin()
        self._actor, self._departed = self.env.actor_id(), []
        self._decided[self._actor] = copied(action)
        self._rewards.decide(self._actor)
        result = self._take(action)
        return self._skip(result) if self._is_over else result

    def is_actor_done(self) -> bool:
        """Whether the actor that decided left, by its decision or in a skipped step."""
        return self._actor in self._departed

    def is_flat_step_end(self) -> bool:
        """Whether the environment's last flat step is over, or the episode."""
        return self._is_over

    def get_actor_rewards(self) -> Any | None:
        """What each decision is paid, in skipped steps too; None where the environment divides no reward."""
        return self._rewards.divided()

    def departed_actors(self) -> Sequence[ActorID]:
        """Who else left in the steps since the decision."""
        return [actor for actor in dict.fromkeys(self._departed) if actor != self._actor]

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
        self._decided, self._rewards = dict(other._decided), copy.deepcopy(other._rewards)
        self._is_over, self._actor, self._departed = other._is_over, other._actor, list(other._departed)

    def _shown(self, result: StepResult) -> list[tuple[ActorID, Observation]]:
        """Who sees what, where that is still needed when the next step has overwritten it."""
        if self.options.max_of == 1:
            return []
        return [(self.env.actor_id(), {name: np.copy(value)[()] for name, value in result[0].items()})]

    def _maximum(self, shown: list[tuple[ActorID, Observation]]) -> Observation:
        actor, last = shown[-1]
        seen = [observation for who, observation in shown[-self.options.max_of :] if who == actor]
        boxes = self._maximal[actor.step_key]
        return {**last, **{name: np.maximum.reduce([observation[name] for observation in seen]) for name in boxes}}

    def _skip(self, result: StepResult) -> StepResult:
        """Up to n_steps − 1 more flat steps, their rewards added to those of `result`."""
        reward, shown, n_left = scalar_reward(result[1]), self._shown(result), self.options.n_steps - 1
        while n_left and not (result[2] or result[3]) and (action := self._repeated(result[0])) is not None:
            result = self._take(action)
            reward += scalar_reward(result[1])
            if self._is_over:
                n_left -= 1
                shown += self._shown(result)
        if not self._is_over:
            shown += self._shown(result)
        return self._maximum(shown) if shown else result[0], reward, *result[2:]

    def _take(self, action: Action) -> StepResult:
        """One step of the environment: who leaves by it decides no more, and its reward is noted."""
        actor = self.env.actor_id()
        result = self.env.step(action)
        self._rewards.add(actor, scalar_reward(result[1]))
        left = [actor] if self.env.is_actor_done() else []
        if self._reports is not None:
            left += self._reports.departed_actors()
        for one in left:
            self._decided.pop(one, None)
        self._departed += left
        has_ended = self.env.is_flat_step_end()
        self._is_over = has_ended or result[2] or result[3]
        if self._is_over:
            self._rewards.end_flat_step(self.env.get_actor_rewards() if has_ended else None)
        return result

    def _repeated(self, observation: Observation) -> Action | None:
        """The action that a skipped step takes; None where the policy has to decide."""
        actor = self.env.actor_id()
        if actor not in self._decided:
            return None
        action = self._skipping(actor)
        heads = self.structured_spaces.action[actor.step_key].spaces
        for head, mask in self._masks[actor.step_key].items():
            if head in action and forbids(np.asarray(observation[mask]), heads[head], np.asarray(action[head])):
                return None
        return action

    def _skipping(self, actor: ActorID) -> Action:
        if self.options.mode == "sticky":
            return copied(self._decided[actor])
        if self._noops is not None:
            return copied(self._noops[actor.step_key])
        source = capability(self.env, HasNoop)  # type: ignore[type-abstract]
        assert source is not None, "asked for when it was built"
        return source.noop_action()


def _boxes(observation: spaces.Dict, action: spaces.Dict) -> list[str]:
    others = masks_of(observation, action) | links_of(observation)
    return [name for name, leaf in observation.spaces.items() if isinstance(leaf, spaces.Box) and name not in others]


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
