"""What needs the files of the machine that asks, refused where workers do not find them (`WorkerPool.shares_files`)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from maze_kernel.contracts.capabilities import WritesFiles, capability
from maze_kernel.contracts.env import StructuredEnv
from maze_kernel.contracts.workers import WorkerPool
from maze_kernel.errors import RequestError


def require_shared_files(pool: WorkerPool, what: str, otherwise: str) -> None:
    """Refuse what workers would write to, or look for on, a disk that is not the caller's.

    Args:
        pool: where it is to happen.
        what: for the message, such as "films of episodes are written by workers".
        otherwise: what to do where files cannot be shared.

    Raises:
        RequestError: the pool shares no files.
    """
    if not pool.shares_files:
        raise _not_shared(what, otherwise)


@attrs.frozen
class EnvFactoryWithoutFiles:
    """Builds environments where the files of the run are out of reach, and refuses those that write any."""

    make_env: Callable[[], StructuredEnv]

    def __call__(self) -> StructuredEnv:
        """The environment.

        Raises:
            RequestError: one of its wrappers writes files; names it.
        """
        env = self.make_env()
        writer = capability(env, WritesFiles)  # type: ignore[type-abstract]
        if writer is not None:
            env.close()
            raise _not_shared(f"{type(writer).__name__} writes files", "leave the wrapper out")
        return env


def _not_shared(what: str, otherwise: str) -> RequestError:
    return RequestError(
        f"{what}, and the workers do not share those of this machine",
        received="a worker pool without shared files",
        owner="maze-runtime",
        help="where every machine of the pool finds this folder under the same path, set shared_files = true in "
        f"[workers]; else {otherwise}",
    )
