"""Where the data comes from: training environments, the acting policies, and the replay buffers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.contracts.vector import FinalObservation, Group, Tick
from maze_replay.replay import ReplayBuffer, Transitions
from maze_replay.series import ActorSeries
from maze_runtime.models.action_encoding import Choices
from maze_runtime.models.capabilities import ActionValueModel
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.masking import MaskError
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.taken_steps import TakenStep
from maze_sac.demonstrations import DemonstrationMemory
from maze_sac.options import SACOptions
from maze_sac.play import make_play


class Experience:
    """Plays with the newest weights, or with the initial policy, and stores every actor's transitions.

    Args:
        context: of the trainer.
        model: being trained.
        parameters: of its policies.
        options: of the trainer.

    Attributes:
        replay: policy key to its buffer.
    """

    def __init__(
        self, context: TrainerContext, model: ActionValueModel, parameters: FlatParameters, options: SACOptions
    ) -> None:
        self._seeds = context.seeds
        self._gamma = options.gamma
        self._vector_env = context.make_vector_env()
        network = self._network = context.make_policy(model, 0)
        random = RandomPolicy(PolicyContext(spaces=context.spaces))
        initial = random if options.initial_sampling_policy == "random" else network
        self._play = make_play(self._vector_env, network, initial, parameters, options.n_rollout_steps)
        n_envs, spaces = self._vector_env.n_envs, context.spaces
        self._series: dict[PolicyKey, ActorSeries] = {}
        for key in spaces.policy_keys:
            n_agents = spaces.agent_counts[key]
            replay = ReplayBuffer(
                spaces.observation[key], spaces.action[key], n_envs * n_agents, options.replay_buffer_size
            )
            self._series[key] = ActorSeries(replay, n_envs, n_agents)
        self.replay = {key: series.replay for key, series in self._series.items()}
        self._choosing = {
            key for key in spaces.policy_keys if any(isinstance(head, Choices) for head in spaces.action[key].values())
        }
        self._memory = DemonstrationMemory(context, options)
        self._flat_steps = _FlatSteps(n_envs)
        self._statistics = EpisodeReturns(n_envs)
        self._is_seen = False

    @property
    def n_transitions(self) -> int:
        """Transitions that can be drawn, of all policy keys, kept demonstrations included."""
        return sum(replay.n_transitions for replay in self.replay.values()) + self._memory.n_transitions

    @property
    def is_ready(self) -> bool:
        """Every policy key has transitions to draw."""
        return all(replay.n_transitions for replay in self.replay.values())

    def sample(self, size: int, rng: np.random.Generator) -> dict[PolicyKey, Transitions]:
        """A batch of `size` transitions of every policy key."""
        return {key: self._memory.sample_with(key, replay, size, rng) for key, replay in self.replay.items()}

    def add_demonstrations(self) -> None:
        """Before anything was played: read the demonstrations, if there are any."""
        self._memory.fill(self.replay)
        self._is_seen = False  # what the environments show was overwritten

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and action samples from the run's seed and `epoch`, and start new episodes."""
        n_envs = self._vector_env.n_envs
        self._play.start(self._seeds.seeds(n_envs, "train-envs", epoch), self._seeds.seed("act", epoch))
        self._statistics.reset()
        self._flat_steps.reset()
        for series in self._series.values():
            series.begin_episodes()
        self._is_seen = False

    def collect(self, n_steps: int, *, initial: bool = False) -> int:
        """Take decisions everywhere, `n_steps` times; returns the environment steps it took.

        Args:
            n_steps: a multiple of the option `n_rollout_steps`.
            initial: the initial policy takes them.
        """
        return sum(self._store(step) for step in self._play.steps(n_steps, initial=initial))

    def _store(self, step: TakenStep) -> int:
        groups, actions, void, tick = step
        if not self._is_seen:
            self._arrive(groups)
        for key, group in groups.items():
            self._series[key].decide(group, actions[key], void, self._flat_steps.sub_step)
        self._pass_time(tick)
        if tick.actor_done is not None:
            for key, group in groups.items():
                self._series[key].leave(group, tick.actor_done, self._flat_steps.sub_step)
        self._end_episodes(tick)
        self._arrive(tick.groups)
        return self._count(tick, void)

    def _arrive(self, groups: Mapping[PolicyKey, Group]) -> None:
        self._is_seen = True
        for key, group in groups.items():
            self._series[key].arrive(group, self._flat_steps.sub_step)

    def _pass_time(self, tick: Tick) -> None:
        for env, changes in self._flat_steps.pass_time(tick):
            for series in self._series.values():
                series.correct(env, changes)
        ends = tick.flat_step_end
        gamma = self._gamma if ends is None else np.where(ends, self._gamma, 1.0)
        for series in self._series.values():
            series.pass_time(tick.reward, gamma)
            if ends is not None:
                series.begin_flat_steps(np.flatnonzero(ends))

    def _end_episodes(self, tick: Tick) -> None:
        if not (tick.terminated.any() or tick.truncated.any()):
            return
        for key, series in self._series.items():
            final = tick.final_observation.get(key)
            if final is not None and key in self._choosing:
                self._check_masks(key, final, tick.truncated & ~tick.terminated)
            series.end_episodes(tick.terminated, tick.truncated, final)

    def _check_masks(self, key: PolicyKey, final: FinalObservation, cut: np.ndarray) -> None:
        """A target asks what the policy would do in the last observation of an episode that was cut; so this does."""
        rows = np.flatnonzero(cut[final.env_index])
        if not len(rows):
            return
        agent_id = np.zeros(len(rows), np.int64) if final.agent_id is None else final.agent_id[rows]
        observation = {name: array[rows] for name, array in final.observation.items()}
        try:
            self._network.act(key, Group(final.env_index[rows], agent_id, observation), deterministic=True)
        except MaskError as error:
            raise MaskError(
                f"{error.what} in the final observation of a truncated episode",
                received=error.received,
                expected="at least one allowed choice: a truncated episode would go on from there",
                owner=f"environment {int(final.env_index[rows][0])}" if len(rows) == 1 else "maze-sac",
                help="allow a choice there, or let the environment terminate the episode instead",
            ) from None

    def _count(self, tick: Tick, void: np.ndarray | None) -> int:
        """Environment steps of a tick; the episodes' statistics take note of it."""
        counted = np.ones(len(tick.reward), bool) if tick.flat_step_end is None else tick.flat_step_end.copy()
        if void is not None:
            counted &= ~void
        self._statistics.add_step(tick.reward, tick.terminated | tick.truncated, ~counted)
        return int(np.count_nonzero(counted))

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call."""
        return self._statistics.drain()

    def state_dict(self) -> dict[str, Any]:
        """The replay buffers and kept demonstrations; what waits for its successor is forgotten with the segment."""
        replay = {key: replay.state_dict() for key, replay in self.replay.items()}
        return {"replay": replay, "demonstrations": self._memory.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for key, replay in self.replay.items():
            replay.load_state_dict(state["replay"][key])
        self._memory.load_state_dict(state["demonstrations"])

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()


class _FlatSteps:
    """The rewards of the sub-steps of unfinished flat steps, for environments that divide them otherwise in the end."""

    def __init__(self, n_envs: int) -> None:
        self.sub_step = np.zeros(n_envs, np.int64)
        self._reward = np.zeros((n_envs, 4), np.float64)
        self._envs = np.arange(n_envs)

    def reset(self) -> None:
        self.sub_step.fill(0)

    def pass_time(self, tick: Tick) -> list[tuple[int, np.ndarray]]:
        """Take note of a tick; (env, changes of its sub-steps' rewards) of the flat steps that end with others."""
        if tick.flat_step_end is None:
            return []
        if self.sub_step.max() == self._reward.shape[1]:
            self._reward = np.concatenate([self._reward, np.zeros_like(self._reward)], axis=1)
        self._reward[self._envs, self.sub_step] = tick.reward
        self.sub_step += 1
        changes = [
            (env, np.asarray(rewards, np.float64) - self._reward[env, : self.sub_step[env]])
            for env, rewards in tick.actor_rewards.items()
        ]
        self.sub_step[tick.flat_step_end | tick.terminated | tick.truncated] = 0
        return changes
