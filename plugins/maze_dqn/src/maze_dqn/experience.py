"""Where the data comes from: training environments, ε-greedy play, and the replay buffers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maze_dqn.options import DQNOptions
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import TrainerContext
from maze_kernel.contracts.vector import Tick
from maze_replay.collector import TransitionStore, take_step
from maze_replay.prioritized import PrioritizedReplayBuffer
from maze_replay.replay import ReplayBuffer, Transitions
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.epsilon_greedy import EpsilonGreedy
from maze_runtime.rollout.final_masks import check_final_masks

OWNER = "maze-dqn"


class Sample(NamedTuple):
    """Transitions of one policy key, importance weights (B,) float32, and, drawn by priority, their rows (B,)."""

    transitions: Transitions
    weights: np.ndarray
    rows: np.ndarray | None


class Experience:
    """Plays ε-greedily with the newest weights and stores every actor's transitions.

    Args:
        context: of the trainer.
        model: being trained.
        options: of the trainer.

    Attributes:
        replay: policy key to its buffer.
        policy: who plays; the trainer sets its `epsilon`.
    """

    def __init__(self, context: TrainerContext, model: Any, options: DQNOptions) -> None:
        self._context = context
        self._options = options
        self._vector_env = context.make_vector_env()
        self.policy = EpsilonGreedy(context.make_policy(model, 0), context.spaces)
        self._statistics = EpisodeReturns(self._vector_env.n_envs)
        by_error = partial(PrioritizedReplayBuffer, alpha=options.priority_exponent)
        self._store = TransitionStore(
            context.spaces,
            self._vector_env.n_envs,
            gamma=options.gamma,
            size=options.replay_buffer_size,
            report=self._statistics.add_step,
            make_replay=by_error if options.prioritized else ReplayBuffer,
        )
        self.replay = self._store.replay
        self._tick: Tick | None = None
        self._weights = np.ones(options.batch_size, np.float32)

    @property
    def n_transitions(self) -> int:
        """Transitions that can be drawn, of all policy keys."""
        return sum(replay.n_transitions for replay in self.replay.values())

    @property
    def is_ready(self) -> bool:
        """Every policy key has transitions to draw."""
        return all(replay.n_transitions for replay in self.replay.values())

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and exploration from the run's seed and `epoch`, and start new episodes."""
        seeds, n_envs = self._context.seeds, self._vector_env.n_envs
        self.policy.seed(seeds.seed("act", epoch))
        self._tick = self._vector_env.reset([[seed] for seed in seeds.seeds(n_envs, "train-envs", epoch)])
        self.policy.begin_episodes(np.arange(n_envs))
        self._statistics.reset()
        self._store.begin_episodes()

    def collect(self, n_steps: int) -> int:
        """Take decisions everywhere, `n_steps` times; returns the environment steps it took."""
        return sum(self._step() for _ in range(n_steps))

    def _step(self) -> int:
        assert self._tick is not None, "start a segment first"
        step = take_step(self._vector_env, self.policy, self._tick)
        self._tick = step.tick
        if step.tick.final_observation:
            cut = step.tick.truncated & ~step.tick.terminated
            for key, final in step.tick.final_observation.items():
                check_final_masks(self.policy, key, final, cut, OWNER)
        return self._store.add(step)

    def sample(self, rng: np.random.Generator, beta: float) -> dict[PolicyKey, Sample]:
        """A batch of every policy key."""
        return {key: self._sample(replay, rng, beta) for key, replay in self.replay.items()}

    def _sample(self, replay: ReplayBuffer, rng: np.random.Generator, beta: float) -> Sample:
        size, n_steps = self._options.batch_size, self._options.n_steps
        if isinstance(replay, PrioritizedReplayBuffer):
            drawn = replay.draw(size, rng, n_steps=n_steps, beta=beta)
            return Sample(drawn.transitions, drawn.weights, drawn.rows)
        return Sample(replay.sample(size, rng, n_steps=n_steps), self._weights, None)

    def set_errors(self, samples: Mapping[PolicyKey, Sample], errors: Mapping[PolicyKey, np.ndarray]) -> None:
        """Take note of the TD errors (B,) of the samples of each policy key."""
        for key, replay in self.replay.items():
            rows = samples[key].rows
            if isinstance(replay, PrioritizedReplayBuffer) and rows is not None:
                replay.set_errors(rows, errors[key])

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call."""
        return self._statistics.drain()

    def state_dict(self) -> dict[str, Any]:
        """The replay buffers; what waits for its successor is forgotten with the segment."""
        return {key: replay.state_dict() for key, replay in self.replay.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for key, replay in self.replay.items():
            replay.load_state_dict(state[key])

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()
