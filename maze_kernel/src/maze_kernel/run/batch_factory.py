"""What builds batches of an experiment's environments, here or in another process: no kernel, only data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.components import load_attribute
from maze_kernel.env.transform import Transform
from maze_kernel.errors import RequestError
from maze_kernel.run.env_factory import EnvFactory

if TYPE_CHECKING:
    from maze_kernel.env.tick import VectorEnv


@attrs.frozen
class NativeForm:
    """The natively vectorised form of an environment: `target(n_envs, options)`, None where these options have none."""

    target: str
    options: Any

    def __call__(self, n_envs: int) -> VectorEnv | None:
        return load_attribute(self.target)(n_envs, self.options)  # type: ignore[no-any-return]


@attrs.frozen
class BatchFactory:
    """Builds batches that are stepped in the process that calls it.

    Attributes:
        env_factory: builds one environment.
        native: its natively vectorised form, taken where there is one.
        transforms: around the batch, innermost first.
        require_native: refuse a batch of single environments.
    """

    env_factory: EnvFactory
    native: NativeForm | None = None
    transforms: Sequence[Transform] = ()
    require_native: bool = False

    def __call__(self, n_envs: int, first_index: int = 0) -> VectorEnv:
        """A batch inside its transforms and checked for NaN; the caller closes it.

        Args:
            n_envs: environments of the batch.
            first_index: number of the first one in messages, where the batch is part of a larger one.
        """
        return wrap_batch(self.raw(n_envs, first_index), self.transforms, self.env_factory.training)

    def raw(self, n_envs: int, first_index: int = 0) -> VectorEnv:
        """A batch without transforms and unchecked.

        Raises:
            RequestError: a native batch is required and there is none.
        """
        native = None if self.native is None or self.env_factory.wrappers else self.native(n_envs)
        if native is not None:
            return native
        if self.require_native:
            wrapped = bool(self.env_factory.wrappers)
            raise RequestError(
                '[vector] mode = "native" is not possible for this environment',
                received="a wrapper that must see single environments" if wrapped else "no native form",
                owner=self.env_factory.env.owner,
                help='use mode = "auto"',
            )
        from maze_kernel.rollout.sequential_vector import SequentialVectorEnv

        return SequentialVectorEnv([self.env_factory] * n_envs, first_index=first_index)


def wrap_batch(vector_env: VectorEnv, transforms: Sequence[Transform], training: bool) -> VectorEnv:
    """A batch checked for NaN and inside its transforms, innermost first."""
    from maze_kernel.env.finite_check import FiniteCheck
    from maze_kernel.rollout.vector_transform import TransformedVectorEnv

    vector_env = FiniteCheck(vector_env)
    for transform in transforms:
        vector_env = TransformedVectorEnv(vector_env, transform, training)
    return vector_env
