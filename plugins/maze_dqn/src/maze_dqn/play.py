"""Where the data comes from: training environments, ε-greedy play, and the replay buffers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maze_dqn.options import DQNOptions
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import TrainerContext
from maze_replay.collector import TransitionCollector
from maze_replay.prioritized import PrioritizedReplayBuffer
from maze_replay.replay import ReplayBuffer
from maze_replay.transitions import Transitions
from maze_runtime.models.acting_copy import ActingCopy
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.epsilon_greedy import EpsilonGreedy
from maze_runtime.rollout.final_masks import check_final_masks

OWNER = "maze-dqn"


class Sample(NamedTuple):
    """Transitions of one policy key and, where drawn by priority, importance weights (B,) float32 and rows (B,)."""

    transitions: Transitions
    weights: np.ndarray | None
    rows: np.ndarray | None


class GreedyPlay:
    """Plays ε-greedily with the newest weights and stores every actor's transitions.

    Args:
        context: of the trainer.
        model: being trained.
        parameters: of it.
        options: of the trainer.

    Attributes:
        replay: policy key to its buffer.
        policy: who plays; the trainer sets its `epsilon`.
    """

    def __init__(self, context: TrainerContext, model: Any, parameters: FlatParameters, options: DQNOptions) -> None:
        self._context = context
        self._options = options
        self._acting = ActingCopy(model, parameters)
        self.policy = EpsilonGreedy(context.make_policy(self._acting.model, 0), context.spaces)
        self._statistics = EpisodeReturns(context.n_envs)
        by_error = partial(PrioritizedReplayBuffer, alpha=options.priority_exponent)
        self._collector = TransitionCollector(
            context.make_vector_env(),
            gamma=options.gamma,
            size=options.replay_buffer_size,
            report=self._statistics.add_step,
            make_replay=by_error if options.prioritized else ReplayBuffer,
            look_at_final=partial(check_final_masks, self.policy, owner=OWNER),
        )
        self.replay = self._collector.replay

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and exploration from the run's seed and `epoch`, and start new episodes."""
        seeds, n_envs = self._context.seeds, self._context.n_envs
        self.policy.seed(seeds.seed("act", epoch))
        self.policy.begin_episodes(np.arange(n_envs))
        self._collector.reset([[seed] for seed in seeds.seeds(n_envs, "train-envs", epoch)])
        self._statistics.reset()

    def collect(self, n_steps: int) -> int:
        """Take decisions everywhere, `n_steps` times; returns the environment steps it took."""
        self._acting.refresh()
        return self._collector.collect(self.policy, n_steps)

    def sample(self, rng: np.random.Generator, beta: float) -> dict[PolicyKey, Sample]:
        """A batch of every policy key."""
        return {key: self._sample(replay, rng, beta) for key, replay in self.replay.items()}

    def _sample(self, replay: ReplayBuffer, rng: np.random.Generator, beta: float) -> Sample:
        size, n_steps = self._options.batch_size, self._options.n_step
        if isinstance(replay, PrioritizedReplayBuffer):
            drawn = replay.draw(size, rng, n_steps=n_steps, beta=beta)
            return Sample(drawn.transitions, drawn.weights, drawn.rows)
        return Sample(replay.sample(size, rng, n_steps=n_steps), None, None)

    def set_errors(self, samples: Mapping[PolicyKey, Sample], errors: Mapping[PolicyKey, np.ndarray]) -> None:
        """Take note of the TD errors (B,) of the samples of each policy key."""
        for key, replay in self.replay.items():
            rows = samples[key].rows
            if isinstance(replay, PrioritizedReplayBuffer) and rows is not None:
                replay.set_errors(rows, errors[key])

    def mean_return(self) -> float | None:
        """Of the episodes that ended since the last `drain`; None without any."""
        return self._statistics.mean()

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
        self._collector.close()
