"""What builds one environment of an experiment, here or in another process: no closure, no kernel, only data."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.catalog import build
from maze_kernel.components import EnvComponent, load_attribute
from maze_kernel.contracts.capabilities import WritesFiles
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import EnvError
from maze_kernel.selection import Selection
from maze_runtime.env.batching import spaces_of
from maze_runtime.env.blame import require_signatures
from maze_runtime.run.placing import placed

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.contracts.env import StructuredEnv

_METHODS = [name for name, method in vars(Transform).items() if isfunction(method) and not name.startswith("_")]


@attrs.frozen
class EnvFactory:
    """Builds one environment with the wrappers that must see a single environment.

    Attributes:
        env: what builds the simulation.
        wrappers: innermost first; the transforms outside the last of the env wrappers are not among them.
        training: transforms shape rewards for training only, otherwise rewards are the environment's own; wrappers
            whose options have `training_only` set are left out where this is false.
        adapters: each is asked in turn to wrap what `env` builds if that is no StructuredEnv.
        files_below: where wrappers that write files do so, the run directory if there is one; None: they write nothing.
    """

    env: Selection
    wrappers: tuple[Selection, ...] = ()
    training: bool = True
    adapters: tuple[Selection, ...] = ()
    files_below: Path | None = Path()

    def __call__(self) -> StructuredEnv:
        with placed(self.env):
            env = adapted(build(self.env), self.adapters)
        for wrapper in self.wrappers:
            with placed(wrapper):
                env = wrap_env(env, wrapper, self.training)
            if isinstance(env, WritesFiles):
                env.write_below(self.files_below)
        return env


def adapters_of(catalog: Catalog) -> tuple[Selection, ...]:
    """What the installed plugins offer to wrap environments of other libraries."""
    return tuple(
        Selection(
            kind="env",
            use=entry.component.name,
            target=entry.component.adapts,
            options=None,
            owner=str(entry.plugin),
        )
        for entry in catalog.entries("env")
        if isinstance(entry.component, EnvComponent) and entry.component.adapts is not None
    )


def adapted(env: Any, adapters: Sequence[Selection]) -> StructuredEnv:
    """The environment itself, or the first wrapping of it.

    Raises:
        EnvError: it is no `StructuredEnv` and no adapter knows it.
    """
    if not isinstance(getattr(env, "structured_spaces", None), StructuredSpaces):
        wrapped = (build(adapter, env) for adapter in adapters)
        env = next((found for found in wrapped if found is not None), env)
        spaces_of(env)
    return env  # type: ignore[no-any-return]


def wrap_env(env: StructuredEnv, wrapper: Selection, training: bool) -> StructuredEnv:
    """One environment inside one wrapper, be it a transform or an env wrapper; one for training may stay away.

    Raises:
        EnvError: what the wrapper makes is no `StructuredEnv`.
    """
    if not training and wrapper.option("training_only", False):
        return env
    if not is_transform(wrapper):
        return _of_wrapper(build(wrapper, env))
    from maze_runtime.env.transformed import TransformedEnv

    return TransformedEnv(env, build_transform(wrapper), training)


def build_transform(wrapper: Selection) -> Transform:
    """A transform whose methods take what they are called with.

    Raises:
        MazeError: it cannot be built, or one does not; shown at its place in the experiment.
    """
    with placed(wrapper):
        transform: Transform = build(wrapper)
        written = [name for name in _METHODS if getattr(type(transform), name) is not getattr(Transform, name)]
        require_signatures(transform, Transform, written, f"wrapper {wrapper.use!r}")
    return transform


def _of_wrapper(wrapped: Any) -> StructuredEnv:
    if not isinstance(getattr(wrapped, "structured_spaces", None), StructuredSpaces):
        raise EnvError(
            "what the wrapper makes is no StructuredEnv: it has no structured_spaces",
            received=f"{type(wrapped).__module__}.{type(wrapped).__qualname__}",
            expected="a StructuredEnv (maze_kernel.contracts.env)",
            help="subclass maze_runtime.env.wrapper.EnvWrapper, and begin its constructor with super().__init__(env)",
        )
    return wrapped  # type: ignore[no-any-return]


def is_transform(wrapper: Selection) -> bool:
    """Whether a wrapper is a function on arrays, which serves a whole batch at once."""
    if wrapper.instance is not None:
        return isinstance(wrapper.instance, Transform)
    target = load_attribute(wrapper.target)
    return isinstance(target, type) and issubclass(target, Transform)
