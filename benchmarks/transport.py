"""Calls and answers of the subprocess pool, beside a bare pipe of the standard library that pickles the same.

An empty call, answers of 100 KB and 10 MB, an argument of 10 MB: NumPy arrays, one actor, one call at a time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from interleaved import Contender, compare
from maze_kernel.contracts.workers import ActorContext
from maze_processes.pool import SubprocessPool
from maze_runtime.workers.options import WorkersOptions

WORK = {
    "empty call": (0, 0, 2000),
    "100 KB answer": (100_000, 0, 1000),
    "10 MB answer": (10_000_000, 0, 20),
    "10 MB argument": (0, 10_000_000, 20),
}
"""Bytes of the answer, bytes of the argument, calls a round."""


class Actor:
    """Answers with arrays of its own."""

    def __init__(self, _context: ActorContext | None = None) -> None:
        self._arrays: dict[int, np.ndarray] = {}

    def nothing(self) -> None: ...

    def take(self, _array: np.ndarray) -> None: ...

    def give(self, n_bytes: int) -> np.ndarray:
        if n_bytes not in self._arrays:
            self._arrays[n_bytes] = np.arange(n_bytes // 8, dtype=np.float64)
        return self._arrays[n_bytes]


def serve(connection: Connection) -> None:
    """The peer's process."""
    actor = Actor()
    while (message := connection.recv()) is not None:
        method, arguments = message
        connection.send(getattr(actor, method)(*arguments))


class Pipe:
    """The peer: a process that answers on a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()

    def call(self, method: str, *arguments: Any) -> Any:
        """Wait for the answer."""
        self._connection.send((method, arguments))
        return self._connection.recv()

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def contender(call: Callable[..., Any], n_answer: int, n_argument: int, n_calls: int) -> Contender:
    """A round of calls; answers are looked at, as whoever asked for them would."""
    argument = np.zeros(n_argument // 8)

    def once() -> None:
        if n_answer:
            assert call("give", n_answer)[-1] == n_answer // 8 - 1
        elif n_argument:
            call("take", argument)
        else:
            call("nothing")

    def work() -> float:
        once()
        start = time.perf_counter()
        for _ in range(n_calls):
            once()
        return n_calls / (time.perf_counter() - start)

    return work


def main() -> None:
    """Compare on the work asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", default=list(WORK), choices=list(WORK))
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    pipe = Pipe()
    with SubprocessPool(WorkersOptions(count=1, preload=())) as pool:
        group = pool.spawn(Actor, 1)

        def call(method: str, *values: Any) -> Any:
            return group.call(0, method, *values).result()

        for name in arguments.work:
            print(f"\n### {name}")
            contenders = {"pipe": contender(pipe.call, *WORK[name]), "maze": contender(call, *WORK[name])}
            compare(contenders, arguments.rounds, "calls/s")
    pipe.close()


if __name__ == "__main__":
    main()
