"""The spaces of an environment, read where it can do no harm: in a worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maze_kernel.contracts.env import StructuredEnv, StructuredSpaces
from maze_kernel.contracts.workers import ActorContext, GroupOptions, WorkerPool
from maze_kernel.errors import EnvError
from maze_runtime.env.batching import spaces_of
from maze_runtime.env.tracebacks import user_traceback


def read_spaces(pool: WorkerPool, make_env: Callable[[], StructuredEnv]) -> StructuredSpaces:
    """Build an environment in a worker, read its spaces and close it.

    Raises:
        MazeError: it cannot be built, or its worker died or never returned.
    """
    group = pool.spawn(partial(_SpacesReader, make_env), 1, GroupOptions(light=True))
    try:
        spaces: StructuredSpaces = group.call(0, "read").result()
    finally:
        group.close()
    return spaces


class _SpacesReader:
    """An actor that builds an environment, says its spaces and closes it."""

    def __init__(self, make_env: Callable[[], StructuredEnv], _context: ActorContext) -> None:
        self._make_env = make_env

    def read(self) -> StructuredSpaces:
        env = self._make_env()
        spaces = spaces_of(env)
        try:
            env.close()
        except Exception as error:
            raised = EnvError(f"the environment's close raised {type(error).__name__}: {error}")
            raised.user_traceback = user_traceback(error)
            raise raised from error
        return spaces
