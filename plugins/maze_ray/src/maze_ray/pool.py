"""The pool `ray`: every actor in a process of its own somewhere on a Ray cluster.

What lives where: `connection` joins the cluster and knows its nodes, `host` runs in the actors' processes, `actor` is
the caller's view of one, `group` calls them and waits, `board` is where weights and stacks are left, `messages` packs
what travels. This module holds the pool, which decides what is started.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext, GroupOptions, RestartPolicy
from maze_kernel.errors import MazeError, RequestError
from maze_ray.connection import Connection, connect
from maze_ray.group import POOL_NAME, RayGroup
from maze_ray.host import HostSpec
from maze_ray.messages import pack_factory
from maze_ray.options import RayOptions
from maze_runtime.workers.groups import close_groups
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.modules import modules_to_ship

_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets a variable of this name for the command of a submitted job."""


class RayPool:
    """A pool of actors on a cluster; see `WorkerPool`. One thread at a time uses it and its groups.

    It joins the cluster with its first group.
    """

    def __init__(self, options: RayOptions | None = None) -> None:
        self._options = options or RayOptions()
        self._groups: list[RayGroup] = []
        self.n_workers = self._options.count
        self.timeout_seconds = self._options.timeout_seconds
        self.build_timeout_seconds = self._options.build_timeout_seconds
        self.is_parallel = True
        self.shares_memory = False
        self.shares_files = self._options.shared_files or not self._options.address

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        options: GroupOptions = USUAL_GROUP,
    ) -> RayGroup:
        """See `WorkerPool.spawn`; returns when every actor is built."""
        if options.arrays:
            raise no_shared_memory(POOL_NAME, options.arrays)
        own = self._options
        connection = connect(own)
        need = {} if options.light else {"CPU": own.cpus_per_worker, "GPU": own.gpus_per_worker}
        connection.check_capacity(n_actors, need)
        encoded = _encode_factory(factory, connection)
        restart = options.restart or RestartPolicy(
            max_restarts=own.max_restarts,
            backoff_seconds=own.backoff_seconds,
            backoff_cap_seconds=own.backoff_cap_seconds,
        )
        group = RayGroup(
            connection,
            own,
            HostSpec(
                group=uuid.uuid4().hex[:12],
                n_actors=n_actors,
                newest_weights=options.newest_weights,
                torch_threads=own.torch_threads,
                folder=os.getcwd() if self.shares_files and not own.working_dir else None,
                versions=connection.versions,
            ),
            factory=encoded,
            constants=options.constants,
            need=need,
            restart=restart,
            timeout_seconds=self.timeout_seconds if options.timeout_seconds is None else options.timeout_seconds,
            build_timeout_seconds=self.build_timeout_seconds
            if options.build_timeout_seconds is None
            else options.build_timeout_seconds,
        )
        self._groups = [*(other for other in self._groups if not other.closed), group]
        try:
            group.build()
        except BaseException:
            group.kill()
            self._groups.remove(group)
            raise
        return group

    def check_run_directory(self, path: Path) -> None:
        """Refuse a run in the working directory of a submitted job, which is a copy that Ray throws away.

        Raises:
            RequestError: the path is relative, and this process was started by `ray job submit`.
        """
        if _SUBMITTED in os.environ and not path.is_absolute():
            raise RequestError(
                "the run directory of a job that `ray job submit` started would be thrown away with the job's folder",
                received=str(path),
                expected="an absolute path, on storage that outlives the job",
                owner="maze-ray",
                help="name one: maze train FILE --out /shared/runs/NAME",
            )

    def check_room(self, n_actors: int) -> None:
        """Refuse actors that are to have `count` actors of their own each, where all together find no place.

        Raises:
            RequestError: names what they want and what is there.
        """
        options = self._options
        need = {"CPU": options.cpus_per_worker, "GPU": options.gpus_per_worker}
        try:
            connect(options).check_capacity(n_actors * (1 + options.count), need)
        except RequestError as error:
            error.what += f": {n_actors} runs at a time with {options.count} workers each"
            error.help = "lower --parallel, or count or cpus_per_worker of [workers], or add machines to the cluster"
            raise

    def close(self) -> None:
        """Close every group; the connection stays.

        Raises:
            WorkerError: an actor's `close` raised, died or had to be killed; after everything is stopped.
        """
        error = close_groups(self._groups)
        self._groups.clear()
        if error is not None:
            raise error

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exc: object) -> None:
        # An error on the way out must not hide the one that led here.
        with contextlib.suppress(MazeError) if exc[0] is not None else contextlib.nullcontext():
            self.close()


def _encode_factory(factory: Callable[[ActorContext], Any], connection: Connection) -> bytes:
    roots = {name.partition(".")[0] for name, module in list(sys.modules.items()) if hasattr(module, "__file__")}
    found = connection.examine(roots)
    modules = modules_to_ship(cloudpickle.list_registry_pickle_by_value(), found.__contains__)
    try:
        return pack_factory(factory, modules)
    except Exception as error:
        raise RequestError(
            f"the factory of a worker's actor cannot be sent to the cluster: {error}",
            received=repr(factory)[:200],
            expected="a factory that holds plain data and builds the rest in the worker",
            owner="maze-ray",
            help="give a function or class that makes the object instead of the object itself",
        ) from error
