"""Conformance of vector modes: whatever steps the environments, the transitions are those of the sequential mode."""

from __future__ import annotations

import copy
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, Tick, VectorContext, VectorEnv
from maze_kernel.errors import EnvError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.vector_modes import sequential_batch
from maze_runtime.workers.inline import InlinePool
from maze_testing.conformance import require, same
from maze_testing.structured_environments import Hierarchy

MakeBatch = Callable[[VectorContext], VectorEnv]

_N_ENVS, _N_STEPS = 5, 40


def check_vector_mode(make: MakeBatch) -> None:
    """The same transitions as the sequential mode for the same seeds, episodes that restart, errors, and closing.

    For modes that step the single environments they are given; natively vectorised forms have seeds of their own.

    Args:
        make: the component's target with its options, e.g. `functools.partial(subprocess_batch, options=Options())`.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    for factory in (Wanderer, partial(Hierarchy, n_steps=6)):
        context = VectorContext(n_envs=_N_ENVS, env_factory=factory, make_workers=InlinePool)
        _check_transitions(make, context)
        _check_buffers(make, context)
    _check_errors(make)
    _check_closing(make)


class Wanderer(FlatEnv):
    """A random walk; its episodes take 3 to 6 steps and end in both ways. It may fail in a step, and leave a file."""

    structured_spaces = flat_spaces(
        spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (2,), np.float32), "time": spaces.Discrete(9)}),
        spaces.Dict({"push": spaces.Box(-1.0, 1.0, (2,), np.float32), "gear": spaces.Discrete(3)}),
    )

    def __init__(self, *, fails: bool = False, folder: Path | None = None) -> None:
        self._fails = fails
        self._folder = folder
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._place, self._time = self._rng.normal(size=2), 0
        self._length = int(self._rng.integers(3, 7))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if self._fails:
            raise ArithmeticError("the walk has no ground")
        self._time += 1
        self._place = self._place + action["push"] * action["gear"] + self._rng.normal(size=2)
        ended, kind = self._time == self._length, bool(self._rng.random() < 0.5)
        return self._observe(), float(self._place.sum()), ended and kind, ended and not kind, {}

    def close(self) -> None:
        if self._folder is not None:
            (self._folder / uuid.uuid4().hex).touch()

    def _observe(self) -> dict[str, Any]:
        return {"place": self._place.astype(np.float32), "time": np.int64(self._time)}


def _check_transitions(make: MakeBatch, context: VectorContext) -> None:
    batch, reference = make(context), sequential_batch(context)
    try:
        require(batch.n_envs == context.n_envs, f"n_envs is {batch.n_envs} where {context.n_envs} were asked for")
        require(batch.structured_spaces == reference.structured_spaces, "the spaces are not those of the environments")
        n_ended = 0
        for number, (seen, expected) in enumerate(zip(_ticks(batch), _ticks(reference), strict=True)):
            for field in attrs.fields(Tick):
                one, other = (_plain(getattr(tick, field.name)) for tick in (seen, expected))
                require(same(one, other), f"{field.name} of tick {number} is not what the sequential mode gives")
            n_ended += int((expected.terminated | expected.truncated).sum())
        assert n_ended, "no episode ended, so nothing was said about restarts"
    finally:
        batch.close()
        reference.close()


def _ticks(batch: VectorEnv) -> Iterator[Tick]:
    """Two beginnings with seeds for two episodes, the second in the middle of episodes, and steps after each."""
    rng = np.random.default_rng(5)
    for number in range(2):
        tick = batch.reset([[100 * number + index, 7 + index] for index in range(batch.n_envs)])
        yield tick
        for _ in range(_N_STEPS):
            tick = batch.step(_actions(rng, batch, tick))
            yield tick


def _actions(rng: np.random.Generator, batch: VectorEnv, tick: Tick) -> dict[PolicyKey, ArrayDict]:
    def sample(space: spaces.Space[Any], n_rows: int) -> np.ndarray:
        if isinstance(space, spaces.Discrete):
            return rng.integers(space.n, size=n_rows)
        return rng.uniform(-1.0, 1.0, size=(n_rows, *(space.shape or ()))).astype(np.float32)

    heads = {key: batch.structured_spaces.action[key].spaces for key in tick.groups}
    return {
        key: {name: sample(space, len(group.env_index)) for name, space in heads[key].items()}
        for key, group in tick.groups.items()
    }


def _plain(value: Any) -> Any:
    """Records as dicts, so that they can be compared."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if attrs.has(type(value)):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def _check_buffers(make: MakeBatch, context: VectorContext) -> None:
    batch = make(context)
    try:
        first = batch.reset([[index] for index in range(batch.n_envs)])
        kept = copy.deepcopy(_plain(first.groups))
        batch.step(_actions(np.random.default_rng(3), batch, first))
        require(same(kept, _plain(first.groups)), "a tick is overwritten by the next one, not by the one after")
    finally:
        batch.close()


def _check_errors(make: MakeBatch) -> None:
    context = VectorContext(n_envs=4, env_factory=partial(Wanderer, fails=True), make_workers=InlinePool)
    batch = make(context)
    try:
        tick = batch.reset([[index] for index in range(4)])
        batch.step(_actions(np.random.default_rng(0), batch, tick))
    except EnvError as error:
        require("environment " in str(error.owner), f"an error does not say which environment raised: {error.owner}")
        require("the walk has no ground" in error.what, "an error does not say what an environment raised")
    else:
        require(False, "an environment that raises does not stop the batch")
    finally:
        batch.close()


def _check_closing(make: MakeBatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        factory = partial(Wanderer, folder=Path(folder))
        make(VectorContext(n_envs=_N_ENVS, env_factory=factory, make_workers=InlinePool)).close()
        n_closed = len(list(Path(folder).iterdir()))
        require(n_closed == _N_ENVS, f"close() closes {n_closed} of {_N_ENVS} environments")
