"""Replay and running statistics: what is stored is scaled when it is drawn, by the statistics of then.

Transitions that were scaled when they were stored would not compare: once a policy has learnt something, the same
state has other numbers than it had at random, and a buffer holds both. So it holds what batches show inside of the
first transform that keeps running statistics, and what is drawn passes through that transform and all outside of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import TakenStep, Tick, VectorEnv
from maze_kernel.errors import MazeWarning
from maze_replay.replay import ReplayBuffer
from maze_replay.ticks import kept
from maze_replay.transitions import Transitions
from maze_runtime.rollout.collector import OnlyCollects, innermost
from maze_runtime.rollout.vector_transform import TransformedVectorEnv


class ScalesOfNow:
    """What replay keeps of the steps of a batch, and how that looks when it is drawn.

    Where no transform keeps running statistics both are what the batch shows. They are that, with a warning, where
    workers collect, and where a transform outside of such a one remembers earlier steps.

    Args:
        vector_env: the batch, inside its transforms.
        joins_keys: whether decisions of several policy keys are stored as one series, whose columns belong to none of
            them: nothing is scaled anew then, and a warning says so.

    Rewards are stored as they are shown inside of the first transform that scales them by running statistics. What is
    drawn passes each stored reward through that transform and those outside of it, before those of several decisions
    are added up. One that holds the rewards of several ticks, until the actor's next decision, is scaled as their sum.

    Attributes:
        layers: which transforms observations that are drawn pass through, innermost first.
        reward_layers: the last ones of them, which rewards pass through.
        spaces: of what is stored.
    """

    def __init__(self, vector_env: VectorEnv, *, joins_keys: bool = False) -> None:
        layers = _layers_from_running_statistics(vector_env)
        hindrance = _hindrance(vector_env, layers, joins_keys) if layers else None
        if hindrance is not None:
            warnings.warn(
                f"running statistics change how observations or rewards are scaled, and {hindrance}: transitions keep"
                ' the scale that they were stored with. statistics = "estimated" gives all of them the same',
                MazeWarning,
                stacklevel=2,
            )
            layers = []
        self.layers = layers
        scales_rewards = [layer.scales_by_running_statistics and layer.shapes_reward for layer in layers]
        self.reward_layers = layers[scales_rewards.index(True) :] if any(scales_rewards) else []
        self._shaping_stored = [
            layer for layer in layers[: len(layers) - len(self.reward_layers)] if layer.shapes_reward
        ]
        self.spaces: StructuredSpaces = vector_env.structured_spaces
        if layers:
            inside = layers[0].vector_env.structured_spaces
            self.spaces = attrs.evolve(self.spaces, observation=inside.observation)
        self._last: Tick | None = None

    def serve(self, replay: Mapping[PolicyKey, ReplayBuffer]) -> None:
        """Let what is drawn from these buffers look as it does by now."""
        if self.layers:
            for key, buffer in replay.items():
                buffer.seen_now = partial(self._seen_now, key)
                buffer.reward_now = partial(_through, self.reward_layers) if self.reward_layers else None
                buffer.older_reward = partial(_through, self._shaping_stored) if self._shaping_stored else None

    def begin(self) -> None:
        """The batch was reset."""
        if self.layers:
            tick = self.layers[0].inner_tick
            assert tick is not None, "reset it first"
            self._last = kept(tick)

    def stored(self, step: TakenStep) -> TakenStep:
        """What to store of the step that the batch has just taken."""
        if not self.layers:
            return step
        before, now = self._last, self.layers[0].inner_tick
        assert before is not None, "begin first"
        assert now is not None
        self._last = now
        if self._shaping_stored:
            paid = self.reward_layers[0].inner_tick if self.reward_layers else step.tick
            assert paid is not None
            now = attrs.evolve(now, reward=paid.reward, actor_rewards=paid.actor_rewards)
        return step._replace(groups=before.groups, tick=now)

    def _seen_now(self, policy_key: PolicyKey, transitions: Transitions) -> Transitions:
        observation, following = transitions.observation, transitions.next_observation
        for layer in self.layers:
            observation = layer.outer_observation(policy_key, observation)
            following = layer.outer_observation(policy_key, following)
        return attrs.evolve(transitions, observation=observation, next_observation=following)


def _through(layers: list[TransformedVectorEnv], reward: np.ndarray) -> np.ndarray:
    for layer in layers:
        reward = layer.outer_reward(reward)
    return reward


def _layers_from_running_statistics(vector_env: VectorEnv) -> list[TransformedVectorEnv]:
    layers: list[TransformedVectorEnv] = []
    while isinstance(vector_env, TransformedVectorEnv):
        layers.insert(0, vector_env)
        vector_env = vector_env.vector_env
    running = [layer.scales_by_running_statistics for layer in layers]
    return layers[running.index(True) :] if any(running) else []


def _hindrance(vector_env: VectorEnv, layers: list[TransformedVectorEnv], joins_keys: bool) -> str | None:
    """Why what is stored cannot be scaled anew."""
    if isinstance(innermost(vector_env), OnlyCollects):
        return "workers send their rollouts as they were scaled there"
    if joins_keys:
        return "decisions of all policy keys are stored together"
    if remembering := [layer.transform for layer in layers if layer.remembers]:
        return f"{type(remembering[0]).__name__} remembers earlier steps outside of them (put it before them)"
    return None
