"""Which decisions of a recorded episode are learnt from: trajectory processors, the built-in ones and the user's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from maze_bc.data import OWNER
from maze_bc.options import ClipDeadEnds, KeepAll, OwnProcessor, ProcessorOptions
from maze_kernel.errors import RequestError
from maze_runtime.datasets.contract import Episode

Processor = Callable[[Episode], np.ndarray]
"""A recorded episode of T decisions to (T,) bool: the decisions to learn from."""


def make_processor(options: ProcessorOptions) -> Processor | None:
    """What the option `processor` names; None: everything is learnt from.

    Raises:
        RequestError: it cannot be imported or built.
    """
    if isinstance(options, KeepAll):
        return None
    if isinstance(options, ClipDeadEnds):
        return partial(clip_dead_end, n_steps=options.n_steps)
    return partial(_checked, _own(options), options.use)


def clip_dead_end(episode: Episode, *, n_steps: int) -> np.ndarray:
    """All decisions but those of the last `n_steps` flat steps of an episode that the environment ended.

    An episode that was cut by a limit, broken off or recorded to its last decision is kept whole.
    """
    n_decisions = len(episode)
    if not n_decisions or not episode.terminated[-1]:
        return np.ones(n_decisions, bool)
    ends = episode.flat_step_end.astype(np.int64)
    flat_step = np.cumsum(ends) - ends
    kept: np.ndarray = flat_step <= flat_step[-1] - n_steps
    return kept


def _own(options: OwnProcessor) -> Processor:
    found = options.load()
    try:
        return found(**options.kwargs) if isinstance(found, type) else partial(found, **options.kwargs)
    except Exception as error:
        raise _refused(
            f"the processor {options.use!r} cannot be used: {type(error).__name__}: {error}",
            expected='"identity", "clip-dead-ends" or "package.module:function"',
        ) from error


def _checked(processor: Processor, name: str, episode: Episode) -> np.ndarray:
    """What a processor of the user's says of an episode."""
    try:
        kept: Any = np.asarray(processor(episode))
    except Exception as error:
        raise _refused(f"the processor {name!r} raised {type(error).__name__}: {error}") from error
    if kept.shape != (len(episode),) or kept.dtype != np.bool_:
        raise _refused(
            f"the processor {name!r} does not say which decisions are learnt from",
            received=f"an array of shape {kept.shape} and type {kept.dtype}",
            expected=f"({len(episode)},) bool, one for each decision of the episode",
        )
    return np.asarray(kept, bool)


def _refused(what: str, **more: Any) -> RequestError:
    return RequestError(what, option="processor", owner=OWNER, **more)
