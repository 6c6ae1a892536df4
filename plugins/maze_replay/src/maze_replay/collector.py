"""Stores every actor's transitions of the steps taken in a batch of environments, for off-policy trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from gymnasium.spaces import Dict

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import FinalObservation, Group, TakenStep, Tick, VectorEnv
from maze_replay.replay import ReplayBuffer
from maze_replay.room import room_for, warn_of_too_little
from maze_replay.scales import ScalesOfNow
from maze_replay.series import ActorSeries
from maze_replay.ticks import kept

MakeReplay = Callable[[Dict, Dict, int, int], ReplayBuffer]
"""`(observation space, action space, n_rings, size)` of a policy key to its buffer."""

LookAtFinal = Callable[[PolicyKey, FinalObservation, np.ndarray], None]
"""Told what actors of a policy key saw last, and which environments (N,) cut their episodes, before it is stored."""

Report = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""`(reward (N,), ended (N,), uncounted (N,))` of a tick; uncounted: void decisions, and those inside a flat step."""


def take_step(vector_env: VectorEnv, policy: Policy, last: Tick) -> TakenStep:
    """Decide everywhere on what the last tick shows; its arrays may be overwritten, unless they are `kept`."""
    actions = {key: policy.act(key, group) for key, group in last.groups.items()}
    tick = vector_env.step(actions)
    if tick.final_observation:
        policy.begin_episodes(np.flatnonzero(tick.terminated | tick.truncated))
    return TakenStep(last.groups, actions, last.awaiting_reset, tick)


class TransitionStore:
    """Keeps every actor's transitions of the steps taken in a batch, wherever they were taken.

    Flat and structured environments, also with a number of agents that changes.

    Args:
        spaces: of the environments.
        n_envs: of the batch.
        gamma: discount a flat step.
        size: transitions that the buffer of each policy key holds.
        report: takes rewards and ends of every tick, e.g. `EpisodeReturns.add_step`.
        make_replay: `ReplayBuffer`, or one that draws otherwise.

    Attributes:
        replay: policy key to its buffer; a ring an environment and agent, see `ActorSeries`.
    """

    def __init__(
        self,
        spaces: StructuredSpaces,
        n_envs: int,
        *,
        gamma: float,
        size: int,
        report: Report = lambda _r, _e, _v: None,
        make_replay: MakeReplay = ReplayBuffer,
    ) -> None:
        self._gamma = gamma
        self._report = report
        self._series: dict[PolicyKey, ActorSeries] = {}
        with room_for(size):
            for key in spaces.policy_keys:
                n_agents = spaces.agent_counts[key]
                n_rings = n_envs * max(1, n_agents)
                replay = make_replay(spaces.observation[key], spaces.action[key], n_rings, size)
                self._series[key] = ActorSeries(replay, n_envs, n_agents)
        self.replay = {key: series.replay for key, series in self._series.items()}
        warn_of_too_little(sum(replay.n_bytes for replay in self.replay.values()), size)
        self._flat_steps = _FlatSteps(n_envs)
        self._is_seen = False
        # Environments of one actor that decides in every tick; None: there are others.
        self._alone = next(iter(self._series.values())) if spaces.is_flat else None
        self._none = np.zeros(n_envs, bool)

    def begin_episodes(self) -> None:
        """Episodes begin everywhere; decisions without a successor are forgotten."""
        self._flat_steps.reset()
        for series in self._series.values():
            series.begin_episodes()
        self._is_seen = False

    def look_again(self) -> None:
        """What the environments show was overwritten in the buffers; the next step brings it again."""
        for series in self._series.values():
            series.begin_episodes()
        self._is_seen = False

    def add(self, step: TakenStep, reported: np.ndarray | None = None) -> int:
        """Store a step; returns the environment steps that ended with it.

        Args:
            step: see `ScalesOfNow.stored`.
            reported: (N,) rewards to report; None: those of the step.
        """
        groups, actions, void, tick, restarted = step
        reported = tick.reward if reported is None else reported
        if not self._is_seen:
            self._arrive(groups)
        elif restarted is not None:
            self._give_up(restarted, groups)
        ended = tick.terminated | tick.truncated
        any_ended = np.count_nonzero(ended) > 0
        if self._alone is not None and not any_ended and void is None and _all_go_on(tick):
            ((key, group),) = tick.groups.items()
            self._alone.follow(actions[key], tick.reward, self._gamma, group)
            self._report(reported, ended, self._none)
            return len(ended)
        for key, group in groups.items():
            self._series[key].decide(group, actions[key], void, self._flat_steps.sub_step)
        self._pass_time(tick)
        if tick.actor_done is not None:
            for key, group in groups.items():
                self._series[key].leave(group, tick.actor_done, self._flat_steps.sub_step)
        for env, actors in tick.departed.items():
            for key, agent in actors:
                self._series[key].depart(np.array([env]), np.array([agent]), self._flat_steps.sub_step)
        if any_ended:
            for key, series in self._series.items():
                series.end_episodes(tick.terminated, tick.truncated, tick.final_observation.get(key))
        self._arrive(tick.groups)
        return self._count(tick, void, reported)

    def _arrive(self, groups: Mapping[PolicyKey, Group]) -> None:
        self._is_seen = True
        for key, group in groups.items():
            self._series[key].arrive(group, self._flat_steps.sub_step)

    def _give_up(self, envs: np.ndarray, groups: Mapping[PolicyKey, Group]) -> None:
        """Workers were replaced: their environments see something new, which follows from nothing."""
        self._flat_steps.sub_step[envs] = 0
        for series in self._series.values():
            series.give_up(envs)
        for key, group in groups.items():
            rows = np.isin(group.env_index, envs)
            observation = {name: array[rows] for name, array in group.observation.items()}
            new = Group(group.env_index[rows], group.agent_id[rows], observation, aligned=False)
            self._series[key].arrive(new, self._flat_steps.sub_step)

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

    def _count(self, tick: Tick, void: np.ndarray | None, reported: np.ndarray) -> int:
        """Environment steps of a tick; whoever keeps the episodes' statistics takes note of it."""
        counted = np.ones(len(tick.reward), bool) if tick.flat_step_end is None else tick.flat_step_end.copy()
        if void is not None:
            counted &= ~void
        self._report(reported, tick.terminated | tick.truncated, ~counted)
        return int(np.count_nonzero(counted))


class TransitionCollector:
    """Steps a batch of environments and stores the transitions.

    Args:
        vector_env: closed with this object.
        gamma: discount a flat step.
        size: transitions that the buffer of each policy key holds.
        report: see `TransitionStore`.
        make_replay: likewise.
        look_at_final: for whoever refuses some observations to bootstrap from.

    Attributes:
        replay: policy key to its buffer; a ring an environment and agent.
    """

    def __init__(
        self,
        vector_env: VectorEnv,
        *,
        gamma: float,
        size: int,
        report: Report = lambda _r, _e, _v: None,
        make_replay: MakeReplay = ReplayBuffer,
        look_at_final: LookAtFinal | None = None,
    ) -> None:
        self._vector_env = vector_env
        self._look_at_final = look_at_final
        self._scales = ScalesOfNow(vector_env)
        self._store = TransitionStore(
            self._scales.spaces, vector_env.n_envs, gamma=gamma, size=size, report=report, make_replay=make_replay
        )
        self.replay = self._store.replay
        self._scales.serve(self.replay)
        self._tick: Tick | None = None

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """New episodes everywhere, see `VectorEnv.reset`; decisions without a successor are forgotten."""
        self._tick = kept(self._vector_env.reset(seeds))
        self._scales.begin()
        self._store.begin_episodes()

    def collect(self, policy: Policy, n_steps: int) -> int:
        """Take decisions everywhere, `n_steps` times; returns the environment steps it took."""
        return sum(self._step(policy) for _ in range(n_steps))

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()

    def _step(self, policy: Policy) -> int:
        assert self._tick is not None, "reset first"
        step = take_step(self._vector_env, policy, self._tick)
        self._tick = step.tick
        if self._look_at_final is not None and step.tick.final_observation:
            cut = step.tick.truncated & ~step.tick.terminated
            for key, final in step.tick.final_observation.items():
                self._look_at_final(key, final, cut)
        return self._store.add(self._scales.stored(step), step.tick.reward)


def _all_go_on(tick: Tick) -> bool:
    """Every environment shows the next observation of its only actor."""
    if tick.flat_step_end is not None or tick.actor_done is not None or len(tick.groups) != 1:
        return False
    (group,) = tick.groups.values()
    return group.aligned and len(group.env_index) == len(tick.reward)


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
