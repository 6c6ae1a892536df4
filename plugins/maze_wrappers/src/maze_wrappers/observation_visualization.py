"""Observations as policies see them, drawn once an epoch."""

from __future__ import annotations

from collections.abc import Mapping

from maze_kernel.env.contract import PolicyKey, StructuredSpaces
from maze_kernel.env.tick import ArrayDict, Tick
from maze_kernel.env.transform import Transform
from maze_kernel.errors import RequestError
from maze_kernel.events.aggregation import EpisodeStatistics, EventStatistics
from maze_wrappers.monitoring_events import ObservationVisualizationEvents
from maze_wrappers.options import ObservationVisualizationOptions
from maze_wrappers.samples import EvenSample


class ObservationVisualization(Transform):
    """Changes nothing. `plot_function(values, (policy_key, name))` gets (m, …) observations, returns a figure.

    Raises:
        RequestError: from `bind`, for a key that does not exist.
    """

    reports = True

    def __init__(self, options: ObservationVisualizationOptions) -> None:
        self.options = options
        self._names: dict[PolicyKey, tuple[str, ...]] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The same spaces."""
        known = {name for space in inner.observation.values() for name in space.spaces}
        for name in self.options.keys:
            if name not in known:
                raise RequestError(
                    f"there is no observation {name!r} to draw",
                    expected=", ".join(sorted(known)),
                    owner="maze-wrappers: observation-visualization",
                )
        wanted = self.options.keys or tuple(known)
        self._names = {
            key: tuple(name for name in space.spaces if name in wanted) for key, space in inner.observation.items()
        }
        return inner

    def memory(self, n_envs: int) -> Gallery:
        """What is kept of one batch."""
        return Gallery(self._names, n_envs, self.options)


class Gallery:
    """Implements `Memory` and `ReportsBatchStatistics`."""

    def __init__(
        self, names: Mapping[PolicyKey, tuple[str, ...]], n_envs: int, options: ObservationVisualizationOptions
    ) -> None:
        self._n_envs = n_envs
        self._plot_function = options.plot_function
        self._samples = {(key, name): EvenSample(options.n_samples) for key, own in names.items() for name in own}

    def reset(self, tick: Tick) -> Tick:
        """Keep the first observations."""
        return self.step({}, tick)

    def step(self, actions: Mapping[PolicyKey, ArrayDict], tick: Tick) -> Tick:
        """Keep some of a tick's observations."""
        for (key, name), sample in self._samples.items():
            if key in tick.groups:
                sample.add(tick.groups[key].observation[name])
        return tick

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """What was kept since the last call, as a report of the first environment."""
        interface = ObservationVisualizationEvents
        drained = {group: sample.drain() for group, sample in self._samples.items()}
        reports = [
            EventStatistics(interface.__name__, interface.observation, {(None, group): [(self._plot_function, rows)]})
            for group, rows in drained.items()
            if rows is not None
        ]
        return [[reports] if reports else [], *([] for _ in range(self._n_envs - 1))]
