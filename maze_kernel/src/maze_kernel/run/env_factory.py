"""What builds one environment of an experiment, here or in another process: no closure, no kernel, only data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from maze_kernel.catalog import build
from maze_kernel.components import load_attribute
from maze_kernel.config.experiment import Selection
from maze_kernel.env.transform import Transform

if TYPE_CHECKING:
    from maze_kernel.env.contract import StructuredEnv


@attrs.frozen
class EnvFactory:
    """Builds one environment with the wrappers that must see a single environment.

    Attributes:
        env: what builds the simulation.
        wrappers: innermost first; the transforms outside the last of the env wrappers are not among them.
        training: transforms shape rewards for training only; otherwise rewards are the environment's own.
    """

    env: Selection
    wrappers: tuple[Selection, ...] = ()
    training: bool = True

    def __call__(self) -> StructuredEnv:
        env = build(self.env)
        for wrapper in self.wrappers:
            env = wrap_env(env, wrapper, self.training)
        return env  # type: ignore[no-any-return]


def wrap_env(env: StructuredEnv, wrapper: Selection, training: bool) -> StructuredEnv:
    """One environment inside one wrapper, be it a transform or an env wrapper."""
    if not is_transform(wrapper):
        return build(wrapper, env)  # type: ignore[no-any-return]
    from maze_kernel.env.transformed import TransformedEnv

    return TransformedEnv(env, build(wrapper), training)


def is_transform(wrapper: Selection) -> bool:
    """Whether a wrapper is a function on arrays, which serves a whole batch at once."""
    if wrapper.instance is not None:
        return isinstance(wrapper.instance, Transform)
    target = load_attribute(wrapper.target)
    return isinstance(target, type) and issubclass(target, Transform)
