"""One environment inside a transform."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, ReportsStatistics
from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError
from maze_runtime.env.own_returns import observer_of_returns, own_returns, paid_otherwise
from maze_runtime.env.single import batch_of_one, only_row, tick_of_one
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.events.aggregation import joined_episodes
from maze_runtime.events.raw_reward import raw_reward, raw_reward_of
from maze_runtime.events.reporters import reporter_of


class TransformedEnv(EnvWrapper):
    """A `StructuredEnv` whose observations, actions and rewards pass through a transform.

    Used where a transform stands inside an env wrapper; transforms outside of all env wrappers are applied to
    the whole batch. While `transform.training` is true its running statistics see every step.

    Args:
        training: False: rewards stay the environment's own, as evaluations and rollouts report them.

    Attributes:
        transforms: those of this environment, innermost first.
    """

    def __init__(self, env: StructuredEnv, transform: Transform, training: bool = True) -> None:
        super().__init__(env)
        self._shapes_reward = training
        self.transform = transform
        self.structured_spaces = transform.bind(env.structured_spaces)
        self.transforms: list[Transform] = [*getattr(env, "transforms", ()), transform]
        self._returns_to = observer_of_returns(transform, env.structured_spaces)
        self._memory = transform.memory(1)
        is_shaped = any(inner.changes("reward") for inner in self.transforms[:-1])
        self._tells_raw = training and transform.changes("reward") and not is_shaped
        self._raw: list[float] = []
        self._paid, self._is_over = 0.0, False
        self._pays_differences = training and env.structured_spaces.pays_differences
        self._actors: list[ActorID] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._paid, self._is_over = 0.0, False
        self._actors.clear()
        key = self.env.actor_id().step_key
        if self.transform.training:
            self.transform.observe_reset({key: batch_of_one(observation)}, 1)
        outer = self.transform.observation(key, observation)
        if self._memory is not None:
            outer = only_row(self._memory.reset(tick_of_one(self.env.actor_id(), outer)))
        return outer, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        actor = self.env.actor_id()
        acting = actor.step_key
        if self._pays_differences:
            self._actors.append(actor)
        inner = self.transform.action(acting, action)
        observation, reward, terminated, truncated, info = self.env.step(inner)
        key, array = self.env.actor_id().step_key, np.asarray(reward, np.float64).reshape(())
        if self.transform.training:
            ended = np.array([bool(terminated or truncated)])
            self.transform.observe_step({key: batch_of_one(observation)}, array[None], ended)
            if self._returns_to is not None and ended[0]:
                self._returns_to.observe_returns(own_returns([self.env.get_actor_rewards()]))
        if self._tells_raw:
            self._paid += float(array)
            if terminated or truncated:
                self._raw.append(self._paid)
                self._is_over = True
        outer_reward = float(self.transform.reward(array) if self._shapes_reward else array)
        outer = self.transform.observation(key, observation)
        if self._memory is not None:
            tick = tick_of_one(
                self.env.actor_id(),
                outer,
                outer_reward,
                bool(terminated),
                bool(truncated),
                bool(self.env.is_flat_step_end()),
            )
            outer = only_row(self._memory.step({acting: batch_of_one(action)}, tick))
        return outer, outer_reward, terminated, truncated, info

    def get_actor_rewards(self) -> Any | None:
        """The wrapped environment's, transformed."""
        rewards = self.env.get_actor_rewards()
        if rewards is None or not self._shapes_reward:
            return rewards
        if self._pays_differences:
            return paid_otherwise(rewards, self._actors, self.transform.reward)
        return self.transform.reward(np.asarray(rewards))

    def drain_statistics(self) -> list[EpisodeStatistics]:
        """Event statistics of the episodes that ended since the last call, and what the transform itself reports."""
        source = self._inner_statistics()
        inner = [] if source is None else source.drain_statistics()
        raw, self._raw = self._raw, []
        inner = joined_episodes(inner, [raw_reward(reward, 0) for reward in raw])
        if not isinstance(self._memory, ReportsBatchStatistics):
            return inner
        return joined_episodes(inner, self._memory.drain_batch_statistics()[0])

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`."""
        return (sum(self._raw), len(self._raw)) if self._tells_raw else raw_reward_of(self.env)

    def discard_episode(self) -> None:
        """Forget the statistics of the episode since `reset`, which lets the transform forget its own."""
        if self._is_over and self._raw:
            self._raw.pop()
        self._paid, self._is_over = 0.0, False
        source = self._inner_statistics()
        if source is not None:
            source.discard_episode()

    def _inner_statistics(self) -> ReportsStatistics | None:
        return reporter_of(self.env)

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as they are seen outside; see `MazeEnv.to_spaces`.

        Raises:
            EnvError: the transform remembers episodes, so a single state is not enough.
        """
        if self._memory is not None:
            raise EnvError(
                f"{type(self.transform).__name__} needs the whole episode to map a recorded state",
                help="map its observations in order with maze_runtime.env.episode_transform.EpisodeTransform",
            )
        observation, action = super().to_spaces(policy_key, maze_state, maze_action)
        outer = self.transform.observation(policy_key, observation)
        return outer, None if action is None else self.transform.reverse_action(policy_key, action)

    def clone_from(self, other: Any) -> None:
        """Go on from where another environment is, with what its transform remembers."""
        super().clone_from(other)
        self._memory, self._actors = copy.deepcopy(other._memory), list(other._actors)
