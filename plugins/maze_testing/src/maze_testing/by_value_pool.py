"""A worker pool without shared memory, for tests: actors of this process that get and give nothing but copies.

What runs on it runs where caller and actors have no memory in common, e.g. on several machines. Arrays inside arguments
and answers are read-only.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext, ArraySpec, GroupOptions
from maze_runtime.workers.inline import InlineGroup, InlinePool
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.options import WorkersOptions

_NAME = "the by-value pool"
_DEFAULTS = WorkersOptions()


class ByValuePool(InlinePool):
    """The inline pool, with factories, arguments and answers pickled on their way."""

    def __init__(self, options: WorkersOptions = _DEFAULTS) -> None:
        super().__init__(options)
        self.shares_memory = False
        self.shares_files = False

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        options: GroupOptions = USUAL_GROUP,
    ) -> ByValueGroup:
        """See `WorkerPool.spawn`; options have the effect they have for the inline pool."""
        if options.arrays:
            raise no_shared_memory(_NAME, options.arrays)
        group = ByValueGroup(_RemoteFactory(cloudpickle.dumps(factory)), n_actors, {}, options.constants)
        self._groups.append(group)
        return group


class ByValueGroup(InlineGroup):
    """Actors that are sent copies; see `ActorGroup`."""

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """Refused; see `ActorGroup.share`."""
        raise no_shared_memory(_NAME, arrays)


class _RemoteFactory:
    def __init__(self, factory: bytes) -> None:
        self._factory = factory

    def __call__(self, context: ActorContext) -> _Remote:
        return _Remote(cloudpickle.loads(self._factory)(context))


class _Remote:
    """An actor whose methods take and return copies."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self._actor, method)
        if method == "load_weights":  # the group has copied them
            return function
        return lambda *arguments: _copied(function(*_copied(arguments)))


def _copied(value: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    data = cloudpickle.dumps(value, buffer_callback=buffers.append)
    return cloudpickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])
