"""One environment of an experiment with everything around it, for loops and libraries that are not Maze's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maze_runtime.context_experiment import Source, given_experiment
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.run.assembly import Assembly

if TYPE_CHECKING:
    from maze_kernel.contracts.env import StructuredEnv
    from maze_kernel.loader import Kernel

TransformStates = Sequence[Mapping[str, Any]]
"""Statistics of an experiment's transforms, innermost first; empty where one keeps none."""


_NAMES_WRAPPERS = ("preset", "trainer", "wrappers")
"""Overrides that ask for wrappers; without one of them an environment alone has none, for nobody named a trainer."""


def make_env(
    experiment: Source = None,
    *,
    env: Any = None,
    wrappers: Sequence[Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    seed: int | None = None,
    statistics: TransformStates | None = None,
    training: bool = False,
    kernel: Kernel | None = None,
) -> StructuredEnv:
    """The environment of an experiment inside all of its wrappers; of `env` alone those that are named, and no others.

    Wrappers that want statistics, such as `observation-normalization`, have those that a training would begin with:
    they are estimated with random actions. `to_gymnasium` makes the result an environment for other libraries.

    Args:
        experiment, env, wrappers, overrides, seed, kernel: see `RunContext`.
        statistics: what `estimate_statistics` gave, so that they are estimated once for several environments.
        training: let running statistics see every step, and transform rewards.

    Raises:
        ExperimentError: every problem of the arguments.
        MazeError: the environment or a wrapper cannot be built.
    """
    assembly = _assembly(experiment, env, wrappers, overrides, seed, kernel)
    if statistics is None:
        statistics = assembly.estimated_states()
    assembly.load_transform_states(statistics)
    made = assembly.env_factory(training=training)()
    for transform in assembly.transforms:
        transform.training = training
        made = TransformedEnv(made, transform, training)
    return made


def estimate_statistics(
    experiment: Source = None,
    *,
    env: Any = None,
    wrappers: Sequence[Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    seed: int | None = None,
    kernel: Kernel | None = None,
) -> TransformStates:
    """The statistics that a training of the experiment would begin with, for `make_env`.

    Args:
        experiment, env, wrappers, overrides, seed, kernel: see `RunContext`.

    Raises: as `make_env`.
    """
    return _assembly(experiment, env, wrappers, overrides, seed, kernel).estimated_states()


def _assembly(
    experiment: Source,
    env: Any,
    wrappers: Sequence[Any] | None,
    overrides: Mapping[str, Any] | None,
    seed: int | None,
    kernel: Kernel | None,
) -> Assembly:
    components = {name: value for name, value in (("env", env), ("wrappers", wrappers)) if value is not None}
    if experiment is None and not any(str(name).partition(".")[0] in _NAMES_WRAPPERS for name in overrides or {}):
        components.setdefault("wrappers", [])
    loaded = given_experiment(experiment, components, overrides or {}, seed, kernel)
    return Assembly(loaded, loaded.kernel)
