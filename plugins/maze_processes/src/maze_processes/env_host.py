"""The actor that holds a slice of a batch of environments in a worker.

`EnvHost` steps its slice with a `SequentialVectorEnv` and copies the tick into shared arrays (`shared_ticks`), or
answers with it. What each environment is doing is noted on the way (`progress`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_kernel.contracts.workers import ActorContext
from maze_processes import transport
from maze_processes.progress import PROGRESS, EnvFactory, progress_spec, watched
from maze_processes.shared_ticks import PARITY, by_prefix
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.workers.lanes import Lane

_CALL_SECONDS = 0.02
"""How long a worker that collects by itself is away."""


@attrs.frozen
class HostFactory:
    """Builds the actor of each slice; ships with all factories, of which each actor uses its own."""

    env_factories: Sequence[EnvFactory]
    bounds: Sequence[int]
    """Slice i is environments bounds[i] … bounds[i + 1] − 1."""
    keep_infos: bool

    def __call__(self, context: ActorContext) -> EnvHost:
        first, last = self.bounds[context.index], self.bounds[context.index + 1]
        progress = context.arrays.get(PROGRESS)
        if progress is None:  # nobody else can see it
            spec = progress_spec(self.bounds[-1])
            progress = np.zeros(spec.shape, spec.dtype)
        return EnvHost(self.env_factories[first:last], first, self.keep_infos, context.index, progress)


class EnvHost:
    """Environments `first` … of a batch, in one worker. The methods are called by `SubprocessVectorEnv`."""

    def __init__(
        self, factories: Sequence[EnvFactory], first: int, keep_infos: bool, worker: int, progress: np.ndarray
    ) -> None:
        self._factories = factories
        self._first = first
        self._worker = worker
        self._slice = slice(first, first + len(factories))
        self._keep_infos = keep_infos
        self._progress = progress
        self._envs: SequentialVectorEnv | None = None
        self._arrays: Mapping[str, np.ndarray] = {}
        self._rollout_arrays: Mapping[str, np.ndarray] = {}
        self._rollouts: Any = None

    def build(self) -> StructuredSpaces:
        """Build the environments; apart from the constructor so that a factory that hangs can be named."""
        factories = [
            watched(factory, self._progress[self._first + index]) for index, factory in enumerate(self._factories)
        ]
        self._envs = SequentialVectorEnv(factories, keep_infos=self._keep_infos, first_index=self._first)
        return self._envs.structured_spaces

    def attach_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays of `array_specs`, or those of lanes for rollouts."""
        if PARITY not in arrays:
            self._rollout_arrays = arrays
            return
        self._arrays = arrays
        self._observation = [(name, array[:, self._slice]) for name, array in by_prefix(arrays, "observation").items()]
        self._final = by_prefix(arrays, "final")
        self._action = {name: array[self._slice] for name, array in by_prefix(arrays, "action").items()}

    def reset(self, seeds: Sequence[Sequence[int]]) -> dict[int, Any] | None:
        """Start new episodes; the tick is in the shared arrays."""
        return self._publish(self._batch.reset(seeds))

    def step(self) -> dict[int, Any] | None:
        """Take the actions in the shared arrays; returns infos by environment index, None where there are none."""
        (key,) = self._batch.structured_spaces.policy_keys
        return self._publish(self._batch.step({key: self._action}))

    def reset_by_value(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes; the tick itself, with environment indices of the slice."""
        return self._batch.reset(seeds)

    def step_by_value(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; the tick itself, with environment indices of the slice."""
        return self._batch.step(actions)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of the slice, those of the transforms included where it collects by itself."""
        return (self._rollouts or self._batch).drain_batch_statistics()

    def prepare_rollouts(self, model: bytes, n_steps: int) -> None:
        """From now on collect rollouts with this model instead of taking single steps; see `RemoteCollector`."""
        import torch

        from maze_runtime.models.flat_parameters import FlatParameters
        from maze_runtime.rollout.rollout_host import RolloutHost

        torch.set_num_threads(1)  # it was not there yet when the pool set them
        network = transport.decode(model)
        lane = Lane(self._worker, self._rollout_arrays)
        parameters = FlatParameters(network)
        self._rollouts = RolloutHost(network, parameters, self._batch, n_steps, lane, _CALL_SECONDS)

    def begin_rollouts(self, transforms: bytes, seeds: Sequence[Sequence[int]], policy_seed: int, told: Any) -> None:
        """Start new episodes inside these transforms, with the run's statistics."""
        self._rollouts.begin(transport.decode(transforms), seeds, policy_seed, told)

    def load_weights(self, flat: np.ndarray, _version: int) -> None:
        """Act with these weights from now on."""
        self._rollouts.load_weights(flat)

    def collect(self, at_random: bool, told: Any) -> Any:
        """Go on with the rollout; see `RolloutHost.collect`."""
        return self._rollouts.collect(at_random, told)

    def render(self) -> Any:
        """A frame of the first environment of the slice."""
        return self._batch.render()

    def close(self) -> None:
        """Close the environments."""
        if self._envs is not None:
            self._envs.close()

    @property
    def _batch(self) -> SequentialVectorEnv:
        assert self._envs is not None
        return self._envs

    def _publish(self, tick: Tick) -> dict[int, Any] | None:
        arrays, rows = self._arrays, self._slice
        parity = int(arrays[PARITY][0])
        (group,) = tick.groups.values()
        for name, array in self._observation:
            array[parity] = group.observation[name]
        arrays["reward"][parity, rows] = tick.reward
        arrays["terminated"][parity, rows] = tick.terminated
        arrays["truncated"][parity, rows] = tick.truncated
        for final in tick.final_observation.values():
            for name, observation in final.observation.items():
                self._final[name][final.env_index + self._first] = observation
        if not tick.infos:
            return None
        return {self._first + index: info for index, info in tick.infos.items()}
