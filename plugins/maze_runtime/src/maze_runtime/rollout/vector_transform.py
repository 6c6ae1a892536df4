"""A batch of environments inside a transform: one call an array, whatever the number of environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NoReturn

import numpy as np

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick, VectorEnv
from maze_runtime.env.batching import require_rows
from maze_runtime.env.blame import RAISED, class_of, raise_blamed
from maze_runtime.env.own_returns import PaysOfBatch, observer_of_returns, own_returns
from maze_runtime.events.aggregation import joined_episodes
from maze_runtime.events.raw_reward import raw_reward, raw_reward_of, reports_raw_reward
from maze_runtime.rollout.episode_sums import EpisodeSums
from maze_runtime.rollout.transform_form import TransformForm


class TransformedVectorEnv:
    """Implements `VectorEnv`; final observations pass through the transform like all others.

    Ticks of the wrapped batch are never changed in place. How long arrays stay valid is up to the wrapped batch
    for keys that the transform leaves alone; what it makes anew is never overwritten.

    Args:
        vector_env: what is wrapped; closed with this one.
        transform: may serve several batches, e.g. one for training and one for evaluation.
        training: let running statistics see the steps of this batch, and shape its rewards. A step that only
            resets an environment never reaches the statistics. Otherwise rewards are the environment's own, so
            that evaluations of differently shaped trainings compare.

    What the environments themselves pay is reported as `BaseEnvEvents/raw_reward` by the innermost transform that
    shapes rewards; that may be one around a single environment.

    Attributes:
        transforms: all of this batch, innermost first.
        inner_tick: what the wrapped batch returned last; None before its first reset.
        form: looks at the first ticks outside.
    """

    def __init__(self, vector_env: VectorEnv, transform: Transform, training: bool) -> None:
        self.vector_env = vector_env
        self.transform = transform
        self.training = training
        self.n_envs = vector_env.n_envs
        self.structured_spaces = transform.bind(vector_env.structured_spaces)
        self.transforms: list[Transform] = [*getattr(vector_env, "transforms", ()), transform]
        self._changes_action = transform.changes("action")
        self._changes_observation = transform.changes("observation")
        self._changes_reward = training and transform.changes("reward")
        self._observes = training and transform.keeps_running_statistics
        inner = vector_env.structured_spaces
        self._returns_to = observer_of_returns(transform, inner) if self._observes else None
        self._pays = PaysOfBatch(self.n_envs) if self._changes_reward and inner.pays_differences else None
        self.inner_tick: Tick | None = None
        self._awaiting: np.ndarray | None = None
        self._checks_action = False
        self._memory = transform.memory(self.n_envs)
        is_shaped = any(inner.changes("reward") for inner in self.transforms[:-1])
        self._raw = EpisodeSums(self.n_envs, raw_reward) if self._changes_reward and not is_shaped else None
        self.form = TransformForm(self, transform)
        self._is_transparent = not (self._changes_observation or self._changes_reward)

    @property
    def does_something(self) -> bool:
        """Whether a tick could look different outside, or anybody watches it."""
        same_spaces = self.structured_spaces == self.vector_env.structured_spaces
        idle = self._is_transparent and not self._changes_action and not self._observes and self._memory is None
        return not (idle and same_spaces)

    @property
    def scales_by_running_statistics(self) -> bool:
        """Whether the same step looks different outside as training goes on."""
        return self._observes and not self._is_transparent

    @property
    def shapes_reward(self) -> bool:
        """Whether rewards look different outside."""
        return self._changes_reward

    @property
    def remembers(self) -> bool:
        """Whether what a tick looks like outside depends on earlier ones."""
        return self._memory is not None and not self.transform.reports

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        return self._reset(seeds) if self.form.is_done else self.form.reset(self._reset, seeds)

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        return self._step(actions) if self.form.is_done else self.form.step(self._step, actions)

    def _reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        tick = self.inner_tick = self.vector_env.reset(seeds)
        self._awaiting = None
        if self._pays is not None:
            self._pays.begin()
        if self._raw is not None:
            self._raw.reset(tick)
        try:
            if self._observes:
                seen = {key: group.observation for key, group in tick.groups.items()}
                self.transform.observe_reset(seen, self.n_envs)
            outer = self._outer(tick, tick.reward)
            self._checks_action = self._changes_action
            return outer if self._memory is None else self._memory.reset(outer)
        except RAISED as error:
            self._blame(error, "where a reset passes through it")

    def _step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        transform = self.transform
        inner = self._inner(actions) if self._changes_action else actions
        if self._pays is not None and self.inner_tick is not None:
            self._pays.decide(self.inner_tick.groups)
        tick = self.inner_tick = self.vector_env.step(inner)
        if self._raw is not None:
            self._raw.step(inner, tick)
        try:
            if self._observes:
                valid = None if self._awaiting is None else ~self._awaiting
                transform.observe_step(_seen(tick), tick.reward, tick.terminated | tick.truncated, valid)
                self._awaiting = tick.awaiting_reset
                if self._returns_to is not None and tick.actor_rewards:
                    self._returns_to.observe_returns(own_returns(tick.actor_rewards.values()))
            if not self._is_transparent:
                tick = self._outer(tick, transform.reward(tick.reward) if self._changes_reward else tick.reward)
            return tick if self._memory is None else self._memory.step(actions, tick)
        except RAISED as error:
            self._blame(error, "where a step passes through it")

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`; where wrappers inside shape rewards, too, theirs is the account."""
        inner = raw_reward_of(self.vector_env)
        return self._raw.so_far() if self._raw is not None and not inner[1] else inner

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """Event statistics of the wrapped batch and of this transform, an episode's together."""
        source = capability(self.vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
        inner = [] if source is None else source.drain_batch_statistics()
        own = [] if self._raw is None else self._raw.drain_batch_statistics()
        if not any(reports_raw_reward(episode) for episodes in inner for episode in episodes):
            inner = _joined(inner, own)
        if isinstance(self._memory, ReportsBatchStatistics):
            inner = _joined(inner, self._memory.drain_batch_statistics())
        return inner

    def render(self) -> Any:
        """The wrapped batch's drawing."""
        return self.vector_env.render()

    def close(self) -> None:
        """Close the wrapped batch."""
        self.vector_env.close()

    def outer_observation(self, policy_key: PolicyKey, observation: ArrayDict) -> ArrayDict:
        """What an inner observation looks like outside by now, (B, …); `Memory` adds nothing."""
        return self.transform.observation(policy_key, observation) if self._changes_observation else observation

    def outer_reward(self, reward: np.ndarray) -> np.ndarray:
        """What an inner reward looks like outside by now, (B,) float32."""
        return np.asarray(self.transform.reward(reward), np.float32) if self._changes_reward else reward

    def _inner(self, actions: Mapping[PolicyKey, ArrayDict]) -> dict[PolicyKey, ArrayDict]:
        transform, spaces = self.transform, self.vector_env.structured_spaces.action
        try:
            inner = {key: transform.action(key, action) for key, action in actions.items()}
            if self._checks_action:
                self._checks_action = False
                for key, action in actions.items():
                    require_rows(spaces[key], inner[key], len(next(iter(action.values()))), "action")
        except RAISED as error:
            self._blame(error, "where an action passes through it")
        return inner

    def _blame(self, error: Exception | SystemExit, where: str) -> NoReturn:
        name = class_of(self.transform)
        raise_blamed(error, f"wrapper {name}", where, owner=name)

    def _outer(self, tick: Tick, reward: np.ndarray) -> Tick:
        groups, finals, actor_rewards = tick.groups, tick.final_observation, tick.actor_rewards
        apply = self.transform.observation
        if self._changes_observation:
            groups = {
                key: Group(group.env_index, group.agent_id, apply(key, group.observation), group.aligned)
                for key, group in groups.items()
            }
            if finals:
                finals = {
                    key: FinalObservation(final.env_index, apply(key, final.observation), final.agent_id)
                    for key, final in finals.items()
                }
        if self._pays is not None:
            actor_rewards = self._pays.changed(tick, self.transform.reward)
        elif actor_rewards and self._changes_reward:
            actor_rewards = {index: self.transform.reward(rewards) for index, rewards in actor_rewards.items()}
        return Tick(
            groups,
            np.asarray(reward, np.float32),
            tick.terminated,
            tick.truncated,
            tick.flat_step_end,
            tick.actor_done,
            finals,
            tick.awaiting_reset,
            actor_rewards,
            tick.infos,
            tick.departed,
        )


def _joined(
    first: list[list[EpisodeStatistics]], second: list[list[EpisodeStatistics]]
) -> list[list[EpisodeStatistics]]:
    """See `joined_episodes`, environment by environment."""
    return [joined_episodes(own, more) for own, more in zip_longest(first, second, fillvalue=())]


def _seen(tick: Tick) -> dict[PolicyKey, ArrayDict]:
    """Every observation of a tick once: rows that do not await a reset, then final observations."""
    seen = {key: group.observation for key, group in tick.groups.items()}
    if tick.awaiting_reset is not None:
        for key, group in tick.groups.items():
            live = ~tick.awaiting_reset[group.env_index]
            seen[key] = {name: array[live] for name, array in group.observation.items()}
    for key, final in tick.final_observation.items():
        rows = seen.get(key)
        if rows is None:
            seen[key] = final.observation
        else:
            seen[key] = {name: np.concatenate([rows[name], array]) for name, array in final.observation.items()}
    return seen
