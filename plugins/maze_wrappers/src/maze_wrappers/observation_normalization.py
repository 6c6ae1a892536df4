"""Observations shifted and scaled to a common size."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError, MazeWarning, RequestError
from maze_wrappers.counted_in_blocks import CountedInBlocks
from maze_wrappers.known_names import require_known
from maze_wrappers.normalized_keys import (
    OWNER,
    NormalizedBox,
    given_scaling,
    normalized_boxes,
    strategy_class,
)
from maze_wrappers.options import EVERY_OTHER, KeyNormalization, ObservationNormalizationOptions
from maze_wrappers.running_statistics import RunningStatistics
from maze_wrappers.saved_statistics import require_fitting
from maze_wrappers.scalings import Affine, Scaling, can_export, scaling_of
from maze_wrappers.stored_statistics import give_stored, read_stored

if TYPE_CHECKING:
    from torch import Tensor

    from maze_kernel.selection import Selection

_MOST_NAMES = 4
_HELP_STORED = "exclude it, or give its statistics in [wrappers.keys]"
Batches = Iterable[Mapping[PolicyKey, dict[str, np.ndarray]]]


class ObservationNormalization(Transform):
    """x' = clip((x − offset) / scale) for every Box key that is not excluded; results are float32.

    Statistics belong to the key's name and are shared by all policy keys that observe it, unless it has different
    shapes there (`normalized_boxes`). A strategy of one's own may put another function in the place of the division.

    Raises:
        RequestError: from `bind`, where a key of the options does not exist or an axis does not fit.
        EnvError: from `observation`, where statistics should have been estimated and were not.
    """

    def __init__(self, options: ObservationNormalizationOptions) -> None:
        self.options = options
        self._names: tuple[str, ...] = ()
        self._observations: dict[str, str] = {}
        self._of_key: dict[PolicyKey, dict[str, str]] = {}
        self._running: dict[str, RunningStatistics] = {}
        self._counted: dict[str, CountedInBlocks] = {}
        self._scalings: dict[str, Scaling] = {}
        self._clips: dict[str, tuple[float, float] | None] = {}
        self._holds = False
        self._is_running = options.statistics == "running"
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._bound = False
        self._estimated = self._is_running

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces seen from outside: Box keys become float32 with transformed and clipped bounds.

        Bounds that follow from estimated statistics are known when these are: bind again.
        """
        boxes = normalized_boxes(inner)
        self._check_names(boxes, inner)
        if not self._bound:
            self._bound = True
            for key, of_key in boxes.items():
                self._of_key[key] = {own.name: own.statistics for own in of_key if self._normalises(own)}
                for own in of_key:
                    if self._normalises(own) and own.statistics not in self._names:
                        self._add(own)
        observation = {key: self._outer(key, space) for key, space in inner.observation.items()}
        return attrs.evolve(inner, observation=observation)

    @property
    def estimation_steps(self) -> int:  # type: ignore[override]
        """Wanted until "estimated" statistics are there, or those of a file."""
        if self._estimated or (self._bound and not self._lacking):
            return 0
        return self.options.n_estimation_steps

    def collect(self, batches: Batches) -> dict[str, RunningStatistics]:
        """Statistics of these batches alone, of the observations that have none."""
        fresh: dict[str, Any] = {}
        for name in self._lacking:
            kind: Any = type(self._running[name])
            fresh[name] = kind(self._running[name].axis)
        for batch in batches:
            for name, rows in self._rows(batch):
                if name in fresh:
                    fresh[name].update(rows)
        return fresh

    def hold(self) -> None:
        """See `Transform.hold`."""
        self._holds = True
        for counted in self._counted.values():
            counted.holds = True

    def take_partial(self) -> dict[str, RunningStatistics]:
        """Statistics by name of what was observed since this or `load_state_dict` was called."""
        taken = {name: counted.take() for name, counted in self._counted.items()}
        self._refresh()
        return {name: statistics for name, statistics in taken.items() if statistics is not None}

    def finish_estimation(self, partials: Sequence[dict[str, RunningStatistics]]) -> None:
        """Merge the workers' statistics; a warning where there are none, for those observations stay as they are."""
        for partial in partials:
            for name, running in partial.items():
                empty: Any = type(running)
                own = self._running.setdefault(name, empty(running.axis))
                own.merge(running)
        self._estimated = True
        self._refresh()
        if lacking := self._lacking:
            warnings.warn(
                f"{OWNER}: none of the {self.options.n_estimation_steps} estimation steps came to "
                f"{', '.join(lacking)}, which {'is' if len(lacking) == 1 else 'are'} not normalised; more "
                'n_estimation_steps, another sampling_policy or statistics = "running" may',
                MazeWarning,
                stacklevel=2,
            )

    @property
    def sampling_policy(self) -> Selection | None:
        """Who acts while statistics are estimated; None: the random policy."""
        return self.options.sampling_policy

    def take_stored_statistics(self) -> str | None:
        """Take statistics from the file that the options name, unless there are some; says so.

        Raises:
            RequestError: there is no such file, or its statistics do not fit.
        """
        path = self.options.statistics_from
        if path is None or any(running.count for running in self._running.values()):
            return None
        stored = read_stored(path, OWNER)
        what = f"{path} has no statistics of the observation {{}}"
        require_known(self._running, stored, what, option="statistics_from", owner=OWNER, help=_HELP_STORED)
        for name, running in self._running.items():
            n_samples = self.options.n_estimation_steps
            give_stored(running, name, stored[name], self._shapes[name], OWNER, n_samples=n_samples)
        self._estimated = True
        self._refresh()
        return f"statistics of {', '.join(self._running)} are those of {path}"

    def exports(self, what: Literal["observation", "action"]) -> bool:
        """Not where a strategy of one's own has no method `export`."""
        return super().exports(what) and all(map(can_export, self._running.values()))

    def changes(self, what: Literal["observation", "action", "reward"]) -> bool:
        """Nothing, where there is nothing to normalise."""
        return super().changes(what) and not self._is_idle

    @property
    def saves_state(self) -> bool:
        """Unless there is nothing to normalise."""
        return not self._is_idle

    @property
    def notes(self) -> tuple[str, ...]:
        """What running statistics scale, as training says it."""
        if not self._is_running or not self._names:
            return ()
        more = f" and {len(self._names) - _MOST_NAMES} more" if len(self._names) > _MOST_NAMES else ""
        return (f"{', '.join(self._names[:_MOST_NAMES])}{more} scaled by running statistics",)

    @property
    def keeps_running_statistics(self) -> bool:
        """Only where they are asked for; estimated and given ones stay as they are while training."""
        return self._is_running and not self._is_idle

    def observe_reset(self, observation: Mapping[PolicyKey, dict[str, np.ndarray]], n_envs: int) -> None:
        """Count first observations, and before them all others, where statistics are running."""
        if self._is_running:
            for counted in self._counted.values():
                counted.begin()
            self._see(observation)
            self._refresh()

    def observe_step(
        self,
        observation: Mapping[PolicyKey, dict[str, np.ndarray]],
        reward: np.ndarray,
        ended: np.ndarray,
        valid: np.ndarray | None = None,
    ) -> None:
        """Count observations, where statistics are running."""
        self._see(observation)

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        result = dict(observation)
        for name, statistics in self._of_key.get(policy_key, {}).items():
            if name in result:
                result[name] = self._scaling_of(statistics).normalized(result[name])
        return result

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The statistics as they are now, as constants."""
        result = dict(observation)
        for name, statistics in self._of_key.get(policy_key, {}).items():
            if name in result:
                result[name] = self._scaling_of(statistics).export(result[name])
        return result

    def state_dict(self) -> dict[str, Any]:
        """Statistics by observation key; keys whose values are given by hand hold those. Empty where there is none."""
        if self._is_idle:
            return {}
        estimated = {name: self._counting(name).state_dict() for name, own in self._running.items() if own.count}
        manual = {
            name: {"offset": scaling.offset, "scale": scaling.scale}
            for name, scaling in self._scalings.items()
            if name not in self._running and isinstance(scaling, Affine)
        }
        return {"estimated": estimated, "manual": manual}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; values given by hand come from the options.

        Raises:
            RequestError: statistics are of another strategy, or of another shape; nothing has changed then.
        """
        for name, saved in state["estimated"].items():
            self._require_fitting(name, self._running.get(name, self._empty(name)), saved)
        for name in [name for name in self._counted if name not in state["estimated"]]:
            kind: Any = type(self._running[name])
            self._running[name] = kind(self._running[name].axis)
            del self._counted[name]
            self._scalings.pop(name, None)
        for name, saved in state["estimated"].items():
            self._running.setdefault(name, self._empty(name))
            self._counting(name).load_state_dict(saved)
            self._estimated = True
        self._refresh()

    def estimate_lacking(self) -> tuple[list[str], list[str]]:
        """Wants the statistics that the loaded state did not have; names of the observations with and without some."""
        lacking = self._lacking
        self._estimated = self._is_running or not lacking
        return [name for name in self._names if name in self._running and name not in lacking], lacking

    @property
    def _lacking(self) -> list[str]:
        """Names of the statistics for which nothing was seen."""
        return [name for name in self._names if name in self._running and not self._running[name].count]

    def _require_fitting(self, name: str, running: RunningStatistics, saved: Mapping[str, Any]) -> None:
        given = self.options.statistics_from is not None
        require_fitting(running, name, saved, self._shapes.get(name), owner=OWNER, broadcasts=given)

    @property
    def _is_idle(self) -> bool:
        return self._bound and not self._names

    def _scaling_of(self, name: str) -> Scaling:
        scaling = self._scalings.get(name)
        if scaling is not None:
            return scaling
        if not self._estimated:
            raise EnvError(
                f"the statistics of the observation {name!r} were never estimated",
                owner=OWNER,
                help="call maze_runtime.rollout.estimation.estimate_transforms first, or load a saved run",
            )
        # Nothing was seen: whoever plays by rules, without training, or is asked what no estimation came to.
        return Affine(np.zeros(()), np.ones(()), None)

    def _normalises(self, own: NormalizedBox) -> bool:
        return own.name not in self.options.exclude and (self.options.images or len(own.box.shape) < 3)

    def _add(self, normalized: NormalizedBox) -> None:
        name, box = normalized.statistics, normalized.box
        self._observations[name] = normalized.name
        own = self._settings(name)
        manual = given_scaling(own)
        self._names = (*self._names, name)
        self._shapes[name] = box.shape
        if manual is None:
            running = self._running.setdefault(name, self._empty(name))
            if any(axis > len(box.shape) for axis in running.axis):
                raise RequestError(
                    f"an axis does not exist in the samples of {name!r}",
                    received=f"axis {list(running.axis)}",
                    expected=f"axes from 0 to {len(box.shape)}: 0 the samples, then {box.shape}",
                    option="axis" if own.axis is None else "keys",
                    owner=OWNER,
                    help=f"give this observation axes of its own: [wrappers.keys.{normalized.name}] axis = [0]",
                )
            if not (own.axis if own.axis is not None else self.options.axis):
                running.axis = tuple(range(len(box.shape) + 1))
            if running.count:  # loaded before the observations were known
                self._require_fitting(name, running, running.state_dict())
            return
        for part in manual:
            if part.size not in (1, box.shape[-1] if box.shape else 1):
                raise RequestError(
                    f"the statistics given for {name!r} do not fit its shape",
                    received=f"{part.size} numbers",
                    expected=f"one number, or one for each of the last axis of {box.shape}",
                    option="keys",
                    owner=OWNER,
                    help=f"give that many numbers in [wrappers.keys.{normalized.name}]",
                )
        offset, scale = (part.reshape(()) if part.size == 1 else part for part in manual)
        self._scalings[name] = Affine(offset, scale, self._clip(name))

    def _empty(self, name: str) -> RunningStatistics:
        own = self._settings(name)
        axis = own.axis if own.axis is not None else self.options.axis
        kind = strategy_class(own.strategy or self.options.strategy, self._option_of_strategy(name))
        statistics: RunningStatistics = kind(tuple(sorted({0, *axis})))
        return statistics

    def _settings(self, statistics: str) -> KeyNormalization:
        return self.options.keys.get(self._key(statistics), KeyNormalization())

    def _key(self, statistics: str) -> str:
        """The entry of `keys` that holds their settings, whether it is there or not."""
        name = self._observations.get(statistics, statistics)
        return name if name in self.options.keys else EVERY_OTHER

    def _option_of_strategy(self, statistics: str) -> str:
        return f"keys.{self._key(statistics)}.strategy" if self._settings(statistics).strategy else "strategy"

    def _clip(self, name: str) -> tuple[float, float] | None:
        if name not in self._clips:
            self._clips[name] = self._settings(name).clip_range or self.options.clip_range
        return self._clips[name]

    def _see(self, batch: Mapping[PolicyKey, dict[str, np.ndarray]]) -> None:
        if not self._is_running:
            return
        for name, rows in self._rows(batch):
            if name in self._running and self._counting(name).add(rows):
                self._scalings[name] = scaling_of(self._running[name], self._clip(name))

    def _rows(self, batch: Mapping[PolicyKey, dict[str, np.ndarray]]) -> Iterator[tuple[str, np.ndarray]]:
        """Rows of a batch by the statistics that they belong to."""
        for key, observation in batch.items():
            for name, statistics in self._of_key.get(key, {}).items():
                if name in observation:
                    yield statistics, observation[name]

    def _counting(self, name: str) -> CountedInBlocks:
        if name not in self._counted:
            self._counted[name] = CountedInBlocks(self._running[name], holds=self._holds)
        return self._counted[name]

    def _refresh(self) -> None:
        for name, running in self._running.items():
            if running.count:
                self._scalings[name] = scaling_of(running, self._clip(name))

    def _outer(self, policy_key: PolicyKey, space: spaces.Dict) -> spaces.Dict:
        of_key = self._of_key.get(policy_key, {})
        outer = {name: self._outer_box(of_key.get(name), leaf) for name, leaf in space.spaces.items()}
        return spaces.Dict(outer)

    def _outer_box(self, name: str | None, leaf: spaces.Space[Any]) -> spaces.Space[Any]:
        if name is None or not isinstance(leaf, spaces.Box):
            return leaf
        scaling = self._scalings.get(name)
        low, high = np.full(leaf.shape, -np.inf), np.full(leaf.shape, np.inf)
        moves = self._is_running and name in self._running
        if scaling is not None and not moves:
            low, high = scaling.bounds(leaf.low, leaf.high)
        if (clip := self._clip(name)) is not None:
            low, high = np.clip(low, *clip), np.clip(high, *clip)
        if moves:  # before anything was seen they are as they were
            low, high = np.minimum(low, leaf.low), np.maximum(high, leaf.high)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), leaf.shape, np.float32)

    def _check_names(self, boxes: Mapping[PolicyKey, Sequence[NormalizedBox]], inner: StructuredSpaces) -> None:
        known = {name for space in inner.observation.values() for name in space.spaces}
        require_known(
            self.options.exclude, known, "there is no observation {} to exclude", option="exclude", owner=OWNER
        )
        named = [name for name in self.options.keys if name != EVERY_OTHER]
        normalized = {own.name for of_key in boxes.values() for own in of_key}
        require_known(named, normalized, "there is no observation {} to normalise", option="keys", owner=OWNER)
