"""The workers of a batch: each holds a slice of its environments, is called, and is replaced when it dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.workers import Future, GroupOptions, RestartPolicy, WorkerPool
from maze_kernel.errors import EnvError, MazeError, WorkerError
from maze_processes.env_host import HostFactory
from maze_processes.progress import PROGRESS, BatchProgress, EnvFactory, progress_spec


class EnvWorkers:
    """Actors that are an `EnvHost` each; what goes wrong in one names its environment, episode, seed and step.

    Attributes:
        group: the actors.
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.
        shares_memory: whether arrays can be shared with them.
        max_restarts: replacements a worker.
        progress: what their environments are doing.

    Args:
        pool: starts them.
        env_factories: build one environment each.
        n_workers: among which the environments are divided, neighbours together.
        keep_infos: let ticks have infos.
        timeout_seconds: of the construction of a worker's environments and of each call; None: no deadline.
        on_message: told, in a sentence, of each replacement.
    """

    def __init__(
        self,
        pool: WorkerPool,
        env_factories: Sequence[EnvFactory],
        n_workers: int,
        *,
        keep_infos: bool,
        timeout_seconds: float | None,
        max_restarts: int,
        on_message: Callable[[str], None],
    ) -> None:
        n_envs = len(env_factories)
        self.bounds = [n_envs * worker // n_workers for worker in range(n_workers + 1)]
        self.shares_memory = pool.shares_memory
        self.max_restarts = max_restarts
        self._on_message = on_message
        self._restarts = [0] * n_workers
        self.group = pool.spawn(
            HostFactory(tuple(env_factories), self.bounds, keep_infos),
            n_workers,
            GroupOptions(
                arrays={PROGRESS: progress_spec(n_envs)} if pool.shares_memory else {},
                restart=RestartPolicy(
                    max_restarts=max_restarts,
                ),
                timeout_seconds=timeout_seconds,
            ),
        )
        self.progress = BatchProgress(self.group.arrays.get(PROGRESS), self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def can_collect_alone(self) -> bool:
        """They can collect rollouts by themselves: no one steps them and no one replaces them."""
        return len(self) > 1 and self.max_restarts == 0

    def build_all(self) -> list[StructuredSpaces]:
        """Build every environment; returns the spaces of each worker."""
        return [self.build(worker, future) for worker, future in enumerate(self.group.call_all("build"))]

    def build(self, worker: int, future: Future | None = None) -> StructuredSpaces:
        """Build the environments of one worker, again in each replacement; `future` where it was called already."""
        future = future or self.group.call(worker, "build")
        while True:
            try:
                spaces: StructuredSpaces = future.result()
                return spaces
            except MazeError as error:
                self.replace(worker, error)
                future = self.group.call(worker, "build")

    def slice(self, worker: int, values: Sequence[Any]) -> Sequence[Any]:
        """A worker's part of what there is one of for each environment."""
        return values[self.bounds[worker] : self.bounds[worker + 1]]

    def call(
        self, method: str, arguments: Sequence[Sequence[Any]], timeout_seconds: float | None = None
    ) -> list[Future]:
        """Call an `EnvHost` method on every worker with its arguments."""
        calls = enumerate(arguments)
        return [self.group.call(worker, method, *own, timeout_seconds=timeout_seconds) for worker, own in calls]

    def ask(self, method: str, arguments: Sequence[Sequence[Any]], timeout_seconds: float | None = None) -> list[Any]:
        """The answers of `call`.

        Raises:
            EnvError: an environment raised, or its process died or hung.
        """
        return [
            self._answer(worker, future) for worker, future in enumerate(self.call(method, arguments, timeout_seconds))
        ]

    def ask_until_answered(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker again and again until its answer is not None; raises as `ask`."""
        answers: list[Any] = [None] * len(self)
        futures = {worker: self.group.call(worker, method, *arguments) for worker in range(len(self))}
        while futures:
            for future in self.group.wait_any(list(futures.values())):
                worker = future.actor_index
                answers[worker] = self._answer(worker, future)
                if answers[worker] is None:
                    futures[worker] = self.group.call(worker, method, *arguments)
                else:
                    del futures[worker]
        return answers

    def wait_for_all(self, futures: Sequence[Future]) -> tuple[dict[int, Any], list[tuple[int, MazeError]]]:
        """Wait for every worker, also when one of them fails; returns answers and failures by worker."""
        answers: dict[int, Any] = {}
        failures = []
        for worker, future in enumerate(futures):
            try:
                answers[worker] = future.result()
            except MazeError as error:
                failures.append((worker, error))
        return answers, failures

    def replace(self, worker: int, error: MazeError) -> None:
        """Say that a replacement is on its way, or raise: the worker lives, or has used up its restarts."""
        died = isinstance(error, WorkerError) and error.is_lost
        if not died or self.group.restarts(worker) == self._restarts[worker]:
            self.fail(worker, error)
        self._restarts[worker] = self.group.restarts(worker)
        doing = self.progress.describe(worker)
        self._on_message(f"{error.what}: {doing}; its environments start again in a new process")

    def fail(self, worker: int, error: MazeError) -> NoReturn:
        """Raise the error of a worker, with the environment that it is about and the process it was in."""
        cause = error if isinstance(error, WorkerError) else error.__cause__
        if not isinstance(cause, WorkerError):
            raise error
        if error is cause:
            doing = self.progress.describe(worker)
            raised = EnvError(error.what, owner=doing, help=error.help, remote_traceback=error.remote_traceback)
            raised.seed = self.progress.seed_of(worker)
            raise raised from error
        if isinstance(error, EnvError) and cause.process_id is not None:
            error.owner = f"{error.owner}, process {cause.process_id}"
            error.remote_traceback = cause.remote_traceback
        raise error

    def close(self) -> None:
        """Close every environment and stop the workers.

        Raises:
            EnvError: an environment's `close` raised, or its process had to be killed.
        """
        try:
            self.group.close()
        except MazeError as error:
            index = error.actor_index if isinstance(error, WorkerError) else None
            self.fail(0 if index is None else index, error)

    def _answer(self, worker: int, future: Future) -> Any:
        try:
            return future.result()
        except MazeError as error:
            self.fail(worker, error)
