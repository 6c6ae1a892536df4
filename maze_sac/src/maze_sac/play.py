"""How steps are taken: one by one here, or as whole rollouts by the workers of a batch that only collects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import TakenStep, Tick, VectorEnv
from maze_replay.collector import take_step
from maze_replay.ticks import kept
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.collector import OnlyCollects, innermost, make_buffer
from maze_runtime.rollout.remote_collector import RemoteCollector
from maze_runtime.rollout.taken_steps import ticks_of
from maze_sac.initial_policy import InitialPolicy


class Play(Protocol):
    """Takes decisions in all environments, with the newest weights."""

    def start(self, env_seeds: Sequence[int], policy_seed: int) -> None:
        """Start new episodes everywhere, and new random streams."""
        ...

    def steps(self, n_steps: int, *, initial: bool) -> Iterator[TakenStep]:
        """The next `n_steps` decisions of every environment, by the initial policy or by the network."""
        ...


class LocalPlay:
    """Steps a batch.

    Args:
        vector_env: flat or structured environments.
        network: the policy that is trained.
        initial: the initial policy.
    """

    def __init__(self, vector_env: VectorEnv, network: Policy, initial: Policy) -> None:
        self._vector_env = vector_env
        self._network = network
        self._initial = initial
        self._tick: Tick | None = None

    def start(self, env_seeds: Sequence[int], policy_seed: int) -> None:
        """See `Play`."""
        for policy in (self._network, self._initial):
            policy.seed(policy_seed)
        self._tick = kept(self._vector_env.reset([[seed] for seed in env_seeds]))
        for policy in (self._network, self._initial):
            policy.begin_episodes(np.arange(self._vector_env.n_envs))

    def steps(self, n_steps: int, *, initial: bool) -> Iterator[TakenStep]:
        """See `Play`; arrays of a step are overwritten by the one after the next."""
        policy = self._initial if initial else self._network
        for _ in range(n_steps):
            assert self._tick is not None, "start first"
            step = take_step(self._vector_env, policy, self._tick)
            self._tick = step.tick
            yield step


class RemotePlay:
    """Lets workers collect whole rollouts.

    Args:
        vector_env: in which nobody can step, and whose collector this is from now on.
        network: the policy that is trained.
        parameters: of its networks.
        n_steps: of every rollout.
        initial_at_random: the initial policy acts at random; else it is the network.
    """

    def __init__(
        self,
        vector_env: VectorEnv,
        network: Policy,
        parameters: FlatParameters,
        n_steps: int,
        *,
        initial_at_random: bool,
    ) -> None:
        batch = innermost(vector_env)
        assert isinstance(batch, OnlyCollects)
        collector = batch.make_collector(vector_env, network, parameters, n_steps)
        assert isinstance(collector, RemoteCollector)
        self._collector = collector
        self._network = network
        self._initial_at_random = initial_at_random
        self._buffer = make_buffer(vector_env.structured_spaces, n_steps, vector_env.n_envs)

    def start(self, env_seeds: Sequence[int], policy_seed: int) -> None:
        """See `Play`."""
        self._network.seed(policy_seed)
        self._collector.reset([[seed] for seed in env_seeds])

    def steps(self, n_steps: int, *, initial: bool) -> Iterator[TakenStep]:
        """See `Play`; `n_steps` is a multiple of those of a rollout."""
        for _ in range(n_steps // self._buffer.n_steps):
            self._collector.collect(self._buffer, at_random=initial and self._initial_at_random)
            self._collector.statistics.take()  # counted step by step
            steps, restarted = ticks_of(self._buffer), self._collector.restarted
            if len(restarted):
                yield next(steps)._replace(restarted=restarted)
            yield from steps


def make_play(
    vector_env: VectorEnv, network: Policy, initial: InitialPolicy, parameters: FlatParameters, n_steps: int
) -> Play:
    """Steps in this process, or rollouts of workers where nobody can step.

    Raises:
        RequestError: workers cannot collect with these wrappers or this policy.
    """
    if isinstance(innermost(vector_env), OnlyCollects):
        return RemotePlay(vector_env, network, parameters, n_steps, initial_at_random=initial.is_random)
    return LocalPlay(vector_env, network, initial.policy)
