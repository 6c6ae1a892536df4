"""The experiment that the trials of a sweep change: what they are loaded from, and how they are checked beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.config.experiment import LoadedExperiment
from maze_kernel.config.load import experiment_from_mapping, load_experiment
from maze_kernel.config.origin import Origin, OverrideText
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.resolved import plain, to_toml
from maze_kernel.config.source import parse_toml
from maze_kernel.errors import ExperimentError, Location, RequestError
from maze_kernel.selection import Selection
from maze_runtime.run.written import written_tables
from maze_sweeps.items import set_items


@attrs.frozen(kw_only=True)
class BaseExperiment:
    """An experiment that settings are changed in.

    Attributes:
        loaded: itself, with the overrides that all trials share.
        text: what trials are loaded from, as TOML; "" where it holds objects from Python.
        data: the same as data.
        shared: the overrides of all trials.
        import_paths: whether `use = "module:Class"` may import.
    """

    loaded: LoadedExperiment
    text: str
    data: Mapping[str, Any]
    origin: Origin
    shared: tuple[str, ...] = ()
    import_paths: bool = True

    @property
    def imports_code(self) -> bool:
        """Whether it names code by path, which a file inside a folder of runs may not."""
        return bool(attrs.evolve(self, import_paths=False).problems({}, {}, self.origin))

    def trial(self, settings: Mapping[str, Any], file: Path | None) -> LoadedExperiment:
        """The experiment with these settings.

        Args:
            file: that holds `text`; None where that is empty.

        Raises:
            ExperimentError: a setting does not fit.
        """
        items = (*self.shared, *set_items(settings))
        kernel = self.loaded.kernel
        if file is not None:
            return load_experiment(file, overrides=items, kernel=kernel, import_paths=self.import_paths)
        return experiment_from_mapping(
            self.data, kernel=kernel, origin=self.origin.file, overrides=items, import_paths=self.import_paths
        )

    def problems(
        self, settings: Mapping[str, Any], spots: Mapping[str, tuple[KeyPath, KeyPath]], sweep: Origin
    ) -> list[RequestError]:
        """What is wrong with the experiment where it has these settings, shown in the sweep file.

        Args:
            spots: path of a setting to where it and its value stand in that file.
            sweep: the origin of that file.
        """
        shown = [spots[path] for path in settings]
        own = self.origin
        origin = _SettingsOrigin(
            file=own.file,
            text=own.text,
            places=own.places,
            python=own.python,
            sweep=sweep,
            spots=shown,
            n_shared=len(self.shared),
        )
        items = (*self.shared, *set_items(settings))
        try:
            experiment_from_mapping(
                self.data,
                kernel=self.loaded.kernel,
                origin=origin,
                overrides=items,
                import_paths=self.import_paths,
            )
        except ExperimentError as error:
            return list(error.problems)
        return []


def base_of_file(path: Path, shared: Sequence[str] = (), *, import_paths: bool = True) -> BaseExperiment:
    """The experiment of a file.

    Raises:
        ExperimentError: every problem of the file and the overrides.
    """
    loaded = load_experiment(path, overrides=shared, import_paths=import_paths)
    return base_of_loaded(loaded, tuple(shared), import_paths=import_paths)


def base_of_loaded(
    loaded: LoadedExperiment, shared: Sequence[str] | None = None, *, import_paths: bool = True
) -> BaseExperiment:
    """The experiment that was loaded, from a file or from Python.

    Args:
        shared: the overrides of all trials, where they are not those of `loaded`.
    """
    shared = loaded.overrides if shared is None else tuple(shared)
    if loaded.text:
        text, (data, origin) = loaded.text, parse_toml(loaded.text, loaded.path)
    else:
        data = _tables(written_tables(loaded))
        text, origin = _text_of(data), Origin(file=loaded.path, python=True)
    return BaseExperiment(loaded=loaded, text=text, data=data, origin=origin, shared=shared, import_paths=import_paths)


def base_of_mapping(data: Mapping[str, Any], shared: Sequence[str] = ()) -> BaseExperiment:
    """The experiment that Python data describe.

    Raises:
        ExperimentError: every problem of the data.
    """
    return base_of_loaded(experiment_from_mapping(data, kernel=None, overrides=shared))


def _tables(data: Any) -> Any:
    """The data with a table in place of each selection, so that settings can change it; other objects as they are."""
    if isinstance(data, Mapping):
        return {key: _tables(part) for key, part in data.items()}
    if isinstance(data, (list, tuple)):
        return [_tables(part) for part in data]
    return plain(data) if isinstance(data, Selection) and data.instance is None else data


def _text_of(data: Mapping[str, Any]) -> str:
    """The data as TOML; "" where they hold objects from Python."""
    try:
        return to_toml({key: part for key, part in data.items() if part is not None})
    except TypeError:
        return ""


@attrs.define(kw_only=True)
class _SettingsOrigin(Origin):
    """Points into the sweep file for what its settings replaced."""

    sweep: Origin
    spots: Sequence[tuple[KeyPath, KeyPath]]
    n_shared: int

    def order(self, path: KeyPath) -> tuple[int, int]:
        """As they stand in the sweep file; what is wrong with the experiment itself comes after that."""
        spot = self._spot(path)
        file, place = Origin.order(self, path) if spot is None else self.sweep.order((*spot[1], *spot[2]))
        return file + (spot is None), place

    def _locate(self, path: KeyPath, *, at_value: bool) -> Location:
        spot = self._spot(path)
        if spot is None:
            return Origin._locate(self, path, at_value=at_value)
        key, value, rest = spot
        if rest:
            return self.sweep.value((*value, *rest)) if at_value else self.sweep.key((*value, *rest))
        return self.sweep.value(value) if at_value else self.sweep.key(key)

    def _spot(self, path: KeyPath) -> tuple[KeyPath, KeyPath, KeyPath] | None:
        """Where the setting and its value stand that a path lies in, and the rest of the path."""
        for depth in range(len(path), 0, -1):
            override = self.overrides.get(path[:depth])
            if override is not None:
                return None if override.order < self.n_shared else (*self._shown(override), path[depth:])
        if not path or path in self.places:
            return None
        # A table that the experiment does not have, and that a setting has made.
        for known, override in self.overrides.items():
            if known[: len(path)] == path and override.order >= self.n_shared:
                key, below = self._shown(override)[0], known[len(path) :]
                table = key[: -len(below)] if key[-len(below) :] == below else key
                return table, table, ()
        return None

    def _shown(self, override: OverrideText) -> tuple[KeyPath, KeyPath]:
        return self.spots[override.order - self.n_shared]
