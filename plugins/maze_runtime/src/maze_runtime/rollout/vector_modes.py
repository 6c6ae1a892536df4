"""The vector modes that step in the process that builds them, and the rule behind `mode = "auto"`."""

from __future__ import annotations

from maze_kernel.contracts.vector import VectorContext, VectorEnv
from maze_kernel.errors import RequestError
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


def auto_batch(context: VectorContext) -> VectorEnv:
    """Native where the environment has it, else sequential."""
    native = context.native_batch()
    return sequential_batch(context) if native is None else native


def sequential_batch(context: VectorContext) -> VectorEnv:
    """One environment after the other."""
    return SequentialVectorEnv([context.env_factory] * context.n_envs, first_index=context.first_index)


def native_batch(context: VectorContext) -> VectorEnv:
    """The environment's own vectorised form.

    Raises:
        RequestError: it has none, or a wrapper must see single environments.
    """
    native = context.native_batch()
    if native is None:
        raise RequestError(
            '[vector] mode = "native" is not possible for this environment',
            received="a wrapper that must see single environments" if context.is_wrapped else "no native form",
            owner=context.env_owner,
            help='use mode = "auto"',
        )
    return native
