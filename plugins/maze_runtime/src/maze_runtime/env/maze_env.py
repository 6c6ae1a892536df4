"""`MazeEnv`: a simulation made trainable. CoreEnv + conversions (+ a reward aggregator) = a `StructuredEnv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics, EventRecord
from maze_kernel.errors import EnvError
from maze_runtime.env.batching import scalar_reward
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.division import Misdivided, RewardDivision
from maze_runtime.env.outside import Outside, OutsideCoreEnv, Reply, first_actor
from maze_runtime.env.renderer import Renderer
from maze_runtime.env.returned import wrong_result
from maze_runtime.env.reward import RewardAggregator
from maze_runtime.events.episode import EpisodeRecorder
from maze_runtime.events.logs import EpisodeEventLog
from maze_runtime.events.pubsub import Pubsub

PartT = TypeVar("PartT")


class MazeEnv:
    """A `StructuredEnv` whose dynamics are a core environment's.

    Args:
        core_env: the simulation.
        observation_conversion: one conversion, or one a policy key.
        action_conversion: likewise.
        reward_aggregator: makes the reward of the step's events; None: the reward is the core environment's.
        event_statistics: False: events reach the reward aggregator only; no statistics, KPIs or step events.

    Attributes:
        core_env: the simulation.
        observation_conversions, action_conversions: by policy key.
        reward_aggregator: None where the reward is the core environment's.

    Raises:
        EnvError: policy keys without a conversion, conversions without a policy key, or something that is none.
    """

    def __init__(
        self,
        core_env: CoreEnv[Any, Any],
        observation_conversion: ObservationConversion[Any] | Mapping[PolicyKey, ObservationConversion[Any]],
        action_conversion: ActionConversion[Any, Any] | Mapping[PolicyKey, ActionConversion[Any, Any]],
        *,
        reward_aggregator: RewardAggregator | None = None,
        event_statistics: bool = True,
    ) -> None:
        self.core_env = core_env
        keys = tuple(core_env.agent_counts)
        self.observation_conversions = _by_key(observation_conversion, keys, ObservationConversion, "observation")
        self.action_conversions = _by_key(action_conversion, keys, ActionConversion, "action")
        self.structured_spaces = StructuredSpaces(
            observation={key: part.space() for key, part in self.observation_conversions.items()},
            action={key: part.space() for key, part in self.action_conversions.items()},
            agent_counts=dict(core_env.agent_counts),
        )
        self.reward_aggregator = reward_aggregator
        self._reward_is_given = reward_aggregator is None
        if reward_aggregator is not None:
            core_env.pubsub.register_subscriber(reward_aggregator)
        self._recorder = (
            EpisodeRecorder(core_env.pubsub, core_env.get_kpi_calculator())
            if event_statistics
            else EpisodeRecorder(Pubsub())
        )
        self._maze_state: Any = None
        self._acted: tuple[Any, Any | None] = (None, None)
        self._flat_step_ended = True
        self._reward = 0.0
        self._actor_rewards: np.ndarray | None = None
        self._division = RewardDivision()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the statistics of the one before are complete now."""
        self._recorder.end_episode(self._maze_state)
        self.core_env.pubsub.clear_subscribers()
        self.core_env.context.begin_episode(seed)
        self._maze_state = self.core_env.reset(seed)
        self._acted = (self._maze_state, None)
        self._flat_step_ended = True
        self._actor_rewards = None
        return self._observation(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision of the current actor."""
        core_env, aggregator = self.core_env, self.reward_aggregator
        before = self._maze_state
        maze_action = self.action_conversions[core_env.actor_id().step_key].space_to_maze(action, before)
        if self._flat_step_ended:
            self._recorder.begin_step()
            self._reward = 0.0
        core_env.pubsub.clear_subscribers()
        result = core_env.step(maze_action)
        try:
            self._maze_state, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise wrong_result("step", result, "maze_state") from None
        self._acted = (before, maze_action)
        if aggregator is not None and not self._reward_is_given:
            reward = self._aggregated(aggregator)
        self._reward += reward
        self._flat_step_ended = terminated or truncated or core_env.is_flat_step_end()
        if self._flat_step_ended:
            core_env.context.advance()
            self._recorder.end_step()
        return self._observation(), reward, terminated, truncated, info

    def actor_id(self) -> ActorID:
        """The core environment's."""
        return self.core_env.actor_id()

    def is_actor_done(self) -> bool:
        """The core environment's."""
        return self.core_env.is_actor_done()

    def departed_actors(self) -> Sequence[ActorID]:
        """The core environment's."""
        return self.core_env.departed_actors()

    def is_flat_step_end(self) -> bool:
        """Whether the last `step` finished a flat step; the end of an episode does."""
        return self._flat_step_ended

    def get_actor_rewards(self) -> np.ndarray | None:
        """Those of the reward aggregator where it gives several, otherwise the core environment's."""
        if self._actor_rewards is not None:
            return self._compared(self._actor_rewards, self.reward_aggregator, "summarize_reward")
        return self._compared(self.core_env.get_actor_rewards(self._reward), self.core_env, "get_actor_rewards")

    def division_problem(self) -> Misdivided | None:
        """The first reward whose parts had another sum; None: there was none."""
        return self._division.problem

    def render(self) -> np.ndarray | None:
        """A picture of the last step by the core environment's renderer; None where it has none."""
        renderer = self.core_env.get_renderer()
        return None if renderer is None else renderer.render(*self._acted, self._recorder.step_events)

    def get_renderer(self) -> Renderer | None:
        """The core environment's."""
        return self.core_env.get_renderer()

    def close(self) -> None:
        """Close the core environment."""
        self.core_env.close()

    def noop_action(self) -> Action:
        """The action of the current actor that changes nothing."""
        return self.action_conversions[self.core_env.actor_id().step_key].noop_action()

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as the policy of a key would see them: material for imitation."""
        observation = self.observation_conversions[policy_key].maze_to_space(maze_state)
        if maze_action is None:
            return observation, None
        return observation, self.action_conversions[policy_key].maze_to_space(maze_action, maze_state)

    def clone_from(self, other: MazeEnv) -> None:
        """Go on from where another environment of this kind is; its events are not taken over.

        Raises:
            EnvError: its simulation runs elsewhere.
        """
        if isinstance(other.core_env, OutsideCoreEnv):
            raise EnvError(
                "there is no simulation to clone: it runs outside of this process",
                help="plan in rollouts, which step one in this process",
            )
        self._recorder.discard_episode()
        self.core_env.clone_from(other.core_env)
        self.core_env.context.env_time = other.core_env.context.env_time
        self._maze_state = other._maze_state
        self._acted = other._acted
        self._flat_step_ended = other._flat_step_ended
        self._reward, self._actor_rewards = other._reward, other._actor_rewards

    def detach(self, outside: Outside) -> None:
        """Let states, rewards and events come from outside; conversions, events, statistics and KPIs stay."""
        self.core_env = OutsideCoreEnv(self.core_env, outside)
        self._reward_is_given = True

    def preview(self, reply: Reply) -> Observation:
        """The observation that a reply from outside gives."""
        key = (reply.actor_id or first_actor(self.structured_spaces)).step_key
        return self.observation_conversions[key].maze_to_space(reply.maze_state)

    def get_maze_state(self) -> Any:
        """The current state."""
        return self._maze_state

    def get_maze_action(self) -> Any | None:
        """The MazeAction of the last step; None after `reset`."""
        return self._acted[1]

    def get_step_events(self) -> Sequence[EventRecord]:
        """The events of the flat step in progress or just finished; the next step reuses the list."""
        return self._recorder.step_events

    def get_episode_events(self) -> EpisodeEventLog:
        """The events of the episode; kept only where the core environment has a KPI calculator."""
        return self._recorder.log

    def get_serializable_components(self) -> dict[str, Any]:
        """The core environment's."""
        return self.core_env.get_serializable_components()

    @property
    def episode_id(self) -> str:
        """Names the episode."""
        return self.core_env.context.episode_id

    @property
    def env_time(self) -> int:
        """Flat steps finished in this episode."""
        return self.core_env.context.env_time

    def drain_statistics(self) -> list[EpisodeStatistics]:
        """Event statistics of the episodes that ended since the last call."""
        return self._recorder.drain()

    def keep_event_logs(self) -> None:
        """Keep the events of finished episodes from now on, for `drain_event_logs`."""
        self._recorder.keep_logs()

    def drain_event_logs(self) -> list[EpisodeEventLog]:
        """All events of the episodes that ended since the last call."""
        return self._recorder.drain_logs()

    def discard_episode(self) -> None:
        """Forget the statistics of the unfinished episode."""
        self._recorder.discard_episode()

    def _observation(self) -> Observation:
        return self.observation_conversions[self.core_env.actor_id().step_key].maze_to_space(self._maze_state)

    def _compared(self, rewards: np.ndarray | None, divider: object, method: str) -> np.ndarray | None:
        if rewards is not None and self._division.problem is None:
            self._division.compare(rewards, self._reward, divider, method)
        return rewards

    def _aggregated(self, aggregator: RewardAggregator) -> float:
        reward = aggregator.summarize_reward(self._maze_state)
        if isinstance(reward, np.ndarray) and reward.ndim:
            self._actor_rewards = reward
            return float(reward.sum())
        self._actor_rewards = None
        return scalar_reward(reward)


def _by_key(
    part: PartT | Mapping[PolicyKey, PartT], keys: tuple[PolicyKey, ...], kind: type, what: str
) -> dict[PolicyKey, PartT]:
    parts = dict(part) if isinstance(part, Mapping) else dict.fromkeys(keys, part)
    if parts.keys() != set(keys):
        raise EnvError(
            f"the {what} conversions do not fit the policy keys of the core environment",
            received=", ".join(map(repr, parts)),
            expected=", ".join(map(repr, keys)),
        )
    for key, one in parts.items():
        if not isinstance(one, kind):
            raise EnvError(
                f"the {what} conversion of policy key {key!r} is none",
                received=f"a {type(one).__name__}",
                expected=f"an {kind.__name__}",
                help="MazeEnv takes the core environment, the observation conversion, and then the action conversion",
            )
    return {key: parts[key] for key in keys}
