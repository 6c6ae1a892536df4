"""Actors with which the suite of worker pools tries a pool."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.contracts.workers import ActorContext
from maze_kernel.errors import EnvError
from maze_runtime.workers.lanes import Columns, Lane


class Probe:
    """An actor that does as it is told."""

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self._calls: list[Any] = []
        self._weights: tuple[list[float], int] | None = None
        self._added: dict[str, np.ndarray] = {}

    def index(self) -> tuple[int, int]:
        return self._context.index, self._context.n_actors

    def echo(self, *values: Any) -> Any:
        self._calls.append(values)
        return values[0] if len(values) == 1 else values

    def calls(self) -> list[Any]:
        return self._calls

    def write(self, name: str, value: float) -> None:
        self._context.arrays[name][self._context.index] = value

    def attach_arrays(self, arrays: Any) -> None:
        self._added.update(arrays)

    def write_added(self) -> None:
        self._added["added"][self._context.index] = self._context.index + 1

    def read(self, name: str) -> list[float]:
        values: list[float] = self._context.arrays[name].tolist()
        return values

    def constants(self) -> dict[str, tuple[np.ndarray, str, bool]]:
        """Content, type and whether it can be written to."""
        constants = self._context.constants
        return {name: (array.copy(), array.dtype.str, array.flags.writeable) for name, array in constants.items()}

    def write_constant(self, name: str) -> None:
        np.asarray(self._context.constants[name])[...] = 0

    def copy_file(self, source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())

    def load_weights(self, flat: np.ndarray, version: int) -> None:
        self._weights = flat.tolist(), version

    def weights(self) -> tuple[list[float], int] | None:
        return self._weights

    def weights_after(self, seconds: float) -> tuple[list[float], int] | None:
        weights = self._weights
        time.sleep(seconds)
        return weights

    def fail(self) -> None:
        raise ValueError("as told")

    def fail_by_name(self) -> None:
        raise EnvError("as told", owner="environment 7")

    def exit(self) -> None:
        os._exit(7)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds


class Unbuildable:
    """An actor whose constructor raises."""

    def __init__(self, context: ActorContext) -> None:
        raise LookupError(f"no licence for {context.index}")


class SlowToBuild(Probe):
    """An actor whose constructor takes its time."""

    def __init__(self, seconds: float, context: ActorContext) -> None:
        time.sleep(seconds)
        super().__init__(context)


class Closing(Probe):
    """An actor that leaves a file when it is closed."""

    def __init__(self, folder: Path, context: ActorContext) -> None:
        super().__init__(context)
        self._folder = folder

    def close(self) -> None:
        (self._folder / str(self._context.index)).touch()


class Puts:
    """An actor that puts its number and what it is told into its lane."""

    def __init__(self, context: ActorContext) -> None:
        self._index = context.index
        self._lane = Lane(context.index, context.arrays)
        self._column = np.zeros((2, 3), np.float32)

    def put(self, slot: int, value: float) -> Columns | None:
        self._column[:] = (self._index,), (value,)
        return self._lane.put(slot, {"column": self._column})


class ClosingBadly(Probe):
    """An actor that raises when it is closed."""

    def close(self) -> None:
        raise OSError("the file is gone")
