"""The actor that holds a slice of a batch of environments in a worker, and what it shares with the caller.

`EnvHost` steps its slice with a `SequentialVectorEnv` and copies the tick into shared arrays, or answers with it.
`Progress` is a table in shared memory that says what each environment is doing, so the caller can name it when the
process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_kernel.contracts.workers import ActorContext, ArraySpec
from maze_processes import transport
from maze_runtime.env.batching import layout
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.workers.lanes import Lane

EnvFactory = Callable[[], StructuredEnv]

_CALL_SECONDS = 0.02
"""How long a worker that collects by itself is away."""

PHASES = ("waiting", "constructor", "reset", "step", "close")
PHASE, EPISODE, SEED, STEP = range(4)

PROGRESS = "progress"
"""Shared array (N, 4) int64: index into `PHASES`, episode from 0 (−1: none yet), seed (−1: none), steps taken."""

PARITY = "parity"
"""Shared array (1,): which half of the double buffers the current tick is in."""


def array_specs(spaces: StructuredSpaces, n_envs: int) -> dict[str, ArraySpec]:
    """The shared arrays of n flat environments.

    Observations, rewards and flags have a leading dimension of two: ticks alternate between the halves, so a
    tick outlives the making of the next one.
    """
    (key,) = spaces.policy_keys
    specs = {
        PARITY: ArraySpec(shape=(1,), dtype="int64"),
        "reward": ArraySpec(shape=(2, n_envs), dtype="float32"),
        "terminated": ArraySpec(shape=(2, n_envs), dtype="bool"),
        "truncated": ArraySpec(shape=(2, n_envs), dtype="bool"),
    }
    for name, leaf in layout(spaces.observation[key]).items():
        specs[f"observation/{name}"] = ArraySpec(shape=(2, n_envs, *leaf.shape), dtype=leaf.dtype.str)
        specs[f"final/{name}"] = ArraySpec(shape=(n_envs, *leaf.shape), dtype=leaf.dtype.str)
    for name, leaf in layout(spaces.action[key]).items():
        specs[f"action/{name}"] = ArraySpec(shape=(n_envs, *leaf.shape), dtype=leaf.dtype.str)
    return specs


def describe_progress(rows: np.ndarray, first: int) -> str:
    """What the first environment that is busy is doing, from rows of `PROGRESS` that begin with environment `first`."""
    busy = np.flatnonzero(rows[:, PHASE])
    if not busy.size:
        return f"environments {first} to {first + len(rows) - 1}, between calls"
    row = rows[busy[0]]
    place = f"environment {first + int(busy[0])}, in its {PHASES[row[PHASE]]}"
    if row[EPISODE] < 0:
        return f"{place}, before its first episode"
    seed = f"seed {row[SEED]}" if row[SEED] >= 0 else "unseeded"
    return f"{place}, episode {row[EPISODE]} ({seed}), step {row[STEP]}"


def by_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> ArrayDict:
    """The arrays called `prefix/name`, by name."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


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
            progress = np.zeros((self.bounds[-1], 4), np.int64)
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
        watched = [
            _watched(factory, self._progress[self._first + index]) for index, factory in enumerate(self._factories)
        ]
        self._envs = SequentialVectorEnv(watched, keep_infos=self._keep_infos, first_index=self._first)
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

    def begin_rollouts(self, transforms: bytes, seeds: Sequence[Sequence[int]], policy_seed: int) -> None:
        """Start new episodes inside these transforms."""
        self._rollouts.begin(transport.decode(transforms), seeds, policy_seed)

    def load_weights(self, flat: np.ndarray, _version: int) -> None:
        """Act with these weights from now on."""
        self._rollouts.load_weights(flat)

    def collect(self, at_random: bool = False) -> Any:
        """Go on with the rollout; see `RolloutHost.collect`."""
        return self._rollouts.collect(at_random)

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


def _watched(factory: EnvFactory, row: np.ndarray) -> EnvFactory:
    def build() -> StructuredEnv:
        row[EPISODE], row[SEED], row[STEP] = -1, -1, 0
        row[PHASE] = PHASES.index("constructor")
        env = _Watched(factory(), row)
        row[PHASE] = 0
        return env

    return build


class _Watched:
    """An environment that notes in shared memory what it is doing."""

    def __init__(self, env: StructuredEnv, row: np.ndarray) -> None:
        self.env = env
        self._row: Any = memoryview(row.data)
        self._steps = 0
        self.structured_spaces = env.structured_spaces
        self.actor_id: Callable[[], ActorID] = env.actor_id
        self.is_actor_done: Callable[[], bool] = env.is_actor_done
        self.is_flat_step_end: Callable[[], bool] = env.is_flat_step_end
        self.get_actor_rewards: Callable[[], Any | None] = env.get_actor_rewards
        self.render: Callable[[], Any] = env.render

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        row = self._row
        self._steps = 0
        row[EPISODE] += 1
        row[SEED], row[STEP], row[PHASE] = -1 if seed is None else seed, 0, 2
        result = self.env.reset(seed=seed, options=options)
        row[PHASE] = 0
        return result

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        row = self._row
        self._steps += 1
        row[STEP] = self._steps
        row[PHASE] = 3
        result = self.env.step(action)
        row[PHASE] = 0
        return result

    def close(self) -> None:
        self._row[PHASE] = 4
        self.env.close()
        self._row[PHASE] = 0
