"""Observations as policies see them, drawn once an epoch."""

from __future__ import annotations

from collections.abc import Mapping

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics, EventStatistics
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_runtime.env.importing import imported
from maze_wrappers.known_names import require_known
from maze_wrappers.monitoring_events import ObservationVisualizationEvents
from maze_wrappers.options import ObservationVisualizationOptions
from maze_wrappers.samples import EvenSample, live_rows

OWNER = "maze-wrappers: observation-visualization"


class ObservationVisualization(Transform):
    """Changes nothing. `plot_function(values, (policy_key, name))` gets (m, …) observations, returns a figure.

    Raises:
        RequestError: from `bind`, for a key that does not exist or a plot function that cannot be imported.
    """

    reports = True

    def __init__(self, options: ObservationVisualizationOptions) -> None:
        self.options = options
        self._names: dict[PolicyKey, tuple[str, ...]] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The same spaces."""
        known = {name for space in inner.observation.values() for name in space.spaces}
        require_known(self.options.keys, known, "there is no observation {} to draw", option="keys", owner=OWNER)
        if self.options.plot_function:
            imported(self.options.plot_function, owner=OWNER, option="plot_function")  # it draws when an epoch ends
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
                sample.add(live_rows(tick, key, tick.groups[key].observation[name]))
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
