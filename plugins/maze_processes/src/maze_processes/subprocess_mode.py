"""The vector mode "subprocess": a batch whose environments live in several processes."""

from __future__ import annotations

from maze_kernel.contracts.vector import VectorContext, VectorEnv
from maze_kernel.contracts.workers import WorkerPool
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_processes.vector_options import SubprocessVectorOptions


def subprocess_batch(context: VectorContext, options: SubprocessVectorOptions) -> VectorEnv:
    """Environments on the experiment's pool where that can step them, else in processes of the batch's own."""
    return SubprocessVectorEnv(
        [context.env_factory] * context.n_envs,
        n_processes=options.n_processes,
        pool=_stepping_pool(context),
        owns_pool=True,
        timeout_seconds=options.step_timeout_seconds,
        max_restarts=options.max_restarts,
    )


def _stepping_pool(context: VectorContext) -> WorkerPool | None:
    """The experiment's pool; None where it steps nothing in parallel, or would send every step as a message."""
    if not context.has_workers:
        return None
    pool = context.make_workers()
    if pool.is_parallel and pool.shares_memory:
        return pool
    pool.close()
    return None
