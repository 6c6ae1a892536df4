"""An experiment back to plain TOML data, every default written out; a cattrs converter does the walking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from maze_kernel.config.experiment import AUTO_MODE, Experiment, VectorOptions
from maze_kernel.selection import Selection

if TYPE_CHECKING:
    from cattrs import Converter


def resolve_experiment(experiment: Experiment) -> dict[str, Any]:
    """Plain data (TOML types only) that structures to an equal experiment.

    What is None is left out. A component given as a Python object is recorded by its name only.
    """
    data: dict[str, Any] = plain(experiment)
    return data


def plain(value: Any) -> Any:
    """Tables, lists, strings, numbers and booleans, none of them shared with `value`."""
    return _without_none(_converter().unstructure(value))


def to_toml(data: Mapping[str, Any]) -> str:
    """Plain data as TOML text; reading it gives the same data."""
    import tomli_w

    return tomli_w.dumps(data)


@cache
def _converter() -> Converter:
    """From attrs classes to tables; never changed after it is made."""
    from cattrs import Converter

    converter = Converter(unstruct_collection_overrides={tuple: list}, use_alias=True)
    converter.register_unstructure_hook(PurePath, str)
    converter.register_unstructure_hook(
        Selection, lambda selection: {"use": selection.use, **converter.unstructure(selection.options)}
    )
    converter.register_unstructure_hook(VectorOptions, partial(_vector_table, converter))
    return converter


def _vector_table(converter: Converter, vector: VectorOptions) -> dict[str, Any]:
    mode = vector.mode
    if mode is None:
        return {"n_envs": vector.n_envs, "mode": AUTO_MODE}
    return {"n_envs": vector.n_envs, "mode": mode.use, **converter.unstructure(mode.options)}


def _without_none(data: Any) -> Any:
    """TOML has no null: an absent key says it."""
    if isinstance(data, Mapping):
        return {str(key): _without_none(item) for key, item in data.items() if item is not None}
    if isinstance(data, (list, tuple)):
        return [_without_none(item) for item in data if item is not None]
    return data
