"""A group of actors on a cluster, and the one place that waits for them.

It waits for an answer, for Ray's word that there will be none, and for a deadline, whichever is first. Which actors
there shall be, and whether the cluster has room for them, is the pool's matter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import ray
import ray.exceptions

from maze_kernel.contracts.workers import ArraySpec, RestartPolicy
from maze_kernel.errors import WorkerError
from maze_ray.actor import LatestWeights, RayActor, RayGroupSettings
from maze_ray.connection import Connection
from maze_ray.host import HostSpec
from maze_ray.messages import BY_VALUE_BYTES, is_large, pack
from maze_ray.options import RayOptions
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.lifecycle import RemoteCall
from maze_runtime.workers.remote_group import RemoteGroup

POOL_NAME = "the pool ray"
_BOARD_SECONDS = 60.0
_STRATEGIES = {"spread": "SPREAD", "pack": "DEFAULT"}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class RayGroup(RemoteGroup[RayActor]):
    """Actors on a cluster; see `ActorGroup`."""

    def __init__(
        self,
        connection: Connection,
        options: RayOptions,
        spec: HostSpec,
        *,
        factory: bytes,
        constants: Mapping[str, np.ndarray],
        need: Mapping[str, float],
        restart: RestartPolicy,
        timeout_seconds: float | None,
        build_timeout_seconds: float | None,
    ) -> None:
        super().__init__(timeout_seconds, options.grace_seconds)
        self.n_actors = spec.n_actors
        self.arrays: Mapping[str, np.ndarray] = {}
        self._spec = spec
        self._connection = connection
        self._weights = LatestWeights()
        stored_constants = _stored({name: np.asarray(array) for name, array in constants.items()})
        self.constants: Mapping[str, np.ndarray] = ray.get(stored_constants)
        for array in self.constants.values():
            array.flags.writeable = False
        settings = RayGroupSettings(
            spec=spec,
            options=_ray_options(options, need),
            factory=_stored(factory),
            constants=stored_constants,
            board=connection.board,
            restart=restart,
            timeout_seconds=timeout_seconds,
            build_timeout_seconds=build_timeout_seconds,
            weights=self._weights,
            pump=self._pump,
        )
        connection.reserved[spec.group] = {name: amount * spec.n_actors for name, amount in need.items()}
        self._actors = [RayActor(index, settings) for index in range(spec.n_actors)]

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> RemoteCall:
        """See `ActorGroup.call`."""
        self._check_open()
        return self._actors[actor_index].submit(method, pack((method, args)), self._deadline(timeout_seconds))

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> list[RemoteCall]:
        """See `ActorGroup.call_all`; large arguments are stored once for all actors."""
        self._check_open()
        packed = pack((method, args))
        message = _stored(packed) if is_large(packed) and self.n_actors > 1 else packed
        deadline = self._deadline(timeout_seconds)
        return [actor.submit(method, message, deadline) for actor in self._actors]

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """See `ActorGroup.broadcast`; the weights travel with the next call, large ones as one object for all."""
        self._check_open()
        if version <= self._weights.version:
            raise ValueError(f"weights version {version} does not follow {self._weights.version}")
        flat = np.asarray(flat).reshape(-1)
        payload = flat.copy() if flat.nbytes < BY_VALUE_BYTES else _stored(flat)
        if self._spec.newest_weights:
            # A reference in a list travels as it is; alone it would be read on the way.
            pinned = payload if isinstance(payload, np.ndarray) else [payload]
            with _unreachable():
                ray.get(
                    self._connection.board.publish.remote(self._spec.group, pinned, version), timeout=_BOARD_SECONDS
                )
        self._weights.payload, self._weights.version = payload, version

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """Refused; see `ActorGroup.share`."""
        raise no_shared_memory(POOL_NAME, arrays)

    def kill(self) -> None:
        """Stop every actor now."""
        self._connection.reserved.pop(self._spec.group, None)
        self._abandon()
        self._weights.payload = None
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._connection.board.forget.remote(self._spec.group)

    def _ask_to_close(self, actor: RayActor, timeout_seconds: float | None) -> RemoteCall:
        return actor.close(timeout_seconds)

    def _turn(self, timeout_seconds: float | None) -> None:
        """Wait for the first event of any actor, no longer than the timeout, and deal with all there are."""
        wake = max(0.0, self._seconds_to_next(timeout_seconds))
        pending = {actor.pending: actor for actor in self._actors if actor.pending is not None}
        if not pending:
            time.sleep(wake)
        for actor in self._ready(pending, wake):
            actor.receive()
            while actor.pending is not None and ray.wait([actor.pending], timeout=0)[0]:
                actor.receive()
        now = time.monotonic()
        for actor in self._actors:
            actor.tick(now)

    def _ready(self, pending: Mapping[Any, RayActor], timeout_seconds: float) -> list[RayActor]:
        if not pending:
            return []
        ready, others = ray.wait(list(pending), num_returns=1, timeout=timeout_seconds)
        if ready and others:
            ready += ray.wait(others, num_returns=len(others), timeout=0)[0]
        return [pending[reference] for reference in ready]


def _ray_options(options: RayOptions, need: Mapping[str, float]) -> dict[str, Any]:
    """What Ray is told about each actor of a group."""
    told: dict[str, Any] = {
        "num_cpus": need.get("CPU", 0.0),
        "num_gpus": need.get("GPU", 0.0),
        "max_restarts": 0,
        "max_task_retries": 0,
        "scheduling_strategy": _STRATEGIES[options.placement],
    }
    # Ray lets libraries have as many threads as the actor has processors, one where it has none.
    if options.torch_threads != max(1, int(need.get("CPU", 0.0))):
        told["runtime_env"] = {"env_vars": {name: str(options.torch_threads) for name in _THREAD_VARIABLES}}
    return told


def _stored(value: Any) -> Any:
    """A reference to a copy in this node's object store, from where each other node takes one."""
    with _unreachable():
        return ray.put(value)


@contextlib.contextmanager
def _unreachable() -> Any:
    try:
        yield
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        raise WorkerError(
            "the object store of this node is full",
            received=str(error).splitlines()[0],
            owner="maze-ray",
            cause="not started",
            help="start the node with a larger --object-store-memory",
        ) from error
    except ray.exceptions.RayError as error:
        raise WorkerError(
            f"the Ray cluster cannot be reached: {type(error).__name__}: {error}",
            owner="maze-ray",
            cause="lost",
            help="see whether the head node of the cluster lives",
        ) from error
