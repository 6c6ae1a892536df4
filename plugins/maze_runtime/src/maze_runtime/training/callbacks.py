"""Callbacks: what sees a run between its epochs, may stop it, and may change a schedule.

`Callback` is the contract, `Callbacks` calls them for the loop. What they are shown is `run_in_progress`'s subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.config.load import select
from maze_kernel.errors import ComponentError, MazeError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.env.blame import RAISED, require_signatures
from maze_runtime.env.tracebacks import user_traceback
from maze_runtime.run.placing import placed
from maze_runtime.training.state_tree import StateError, flatten_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_kernel.loader import Kernel
    from maze_runtime.training.run_in_progress import RunInProgress

METHODS = ("on_evaluation", "on_epoch", "on_checkpoint")
"""What a callback may have, in the order in which an epoch calls them."""


@attrs.frozen(kw_only=True)
class CallbackContext:
    """What the target of a callback component is built from.

    Attributes:
        run_dir: of the run; files of the callback go below it.
        name: of the experiment.
        metric: the statistic that selects the best model.
        minimize: whether less of it is better.
    """

    run_dir: Path
    name: str
    metric: str
    minimize: bool = False


class Callback:
    """What a run calls between its epochs; inherit from it, or write a class with the methods that are needed.

    A function is a callback too, and called as `on_epoch`. What a callback raises ends the run.
    """

    def on_evaluation(self, run: RunInProgress) -> None:
        """After an epoch whose weights were evaluated; the statistics are in `run.record.evaluation`."""

    def on_epoch(self, run: RunInProgress) -> None:
        """After each epoch, its evaluation and the loggers, before it is saved."""

    def on_checkpoint(self, run: RunInProgress, folder: Path) -> None:
        """After a checkpoint was written; what changes here is not in it, so schedules cannot.

        Args:
            run: as it is now.
            folder: of the checkpoint; older ones are removed by and by.
        """

    def state_dict(self) -> dict[str, Any]:
        """What the callback remembers: nested dicts and lists of numbers, texts, arrays. Saved in every checkpoint."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, in a run that goes on."""


class Callbacks:
    """The callbacks of one run, in order.

    Args:
        callbacks: name and callback; names differ.
    """

    def __init__(self, callbacks: Sequence[tuple[str, Any]] = ()) -> None:
        self._callbacks = dict(callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the experiment first, in the order of its tables."""
        return tuple(self._callbacks)

    def call(self, method: str, run: RunInProgress, *arguments: Any) -> None:
        """Call a method of every callback that has it.

        Raises:
            ComponentError: a callback raised; it names the callback.
        """
        for name, callback in self._callbacks.items():
            function = getattr(callback, method, None)
            if function is not None:
                run.caller, run.method = name, method
                _guarded(name, method, function, run, *arguments)
                run.method = ""

    def state_dict(self) -> dict[str, Any]:
        """What callbacks remember, by name; those that remember nothing are left out.

        Raises:
            ComponentError: a callback raised, or its state holds what no checkpoint can.
        """
        states = {}
        for name, callback in self._callbacks.items():
            if hasattr(callback, "state_dict"):
                state = _guarded(name, "state_dict", callback.state_dict)
                _guarded(name, "state_dict", flatten_state, state)
                if state:
                    states[name] = state
        return states

    def load_state_dict(self, states: Mapping[str, Any]) -> list[str]:
        """Restore what `state_dict` returned; returns what is to be said about it.

        Raises:
            ComponentError: a callback raised.
        """
        for name, state in states.items():
            callback = self._callbacks.get(name)
            if callback is not None and hasattr(callback, "load_state_dict"):
                _guarded(name, "load_state_dict", callback.load_state_dict, state)
        gone = [name for name in states if name not in self._callbacks]
        return [f"callback {name} was saved with the run and is not given any more" for name in gone]


def named_callbacks(
    kernel: Kernel, context: CallbackContext, selections: Sequence[Selection], given: Sequence[Any]
) -> list[tuple[str, Any]]:
    """Callbacks with names of their own: those that the experiment selects, then those from Python.

    Args:
        given: names, tables, instances of `Selection`, or callbacks themselves.

    Raises:
        RequestError: something is no callback.
        ComponentError: a component could not be built.
    """
    named: list[tuple[str, Any]] = []
    for one in (*selections, *given):
        selection = select(kernel, "callback", one) if isinstance(one, (str, Mapping)) else one
        if isinstance(selection, Selection):
            name = selection.use
            with placed(selection):
                callback = _as_callback(kernel.catalog.build(selection, context), selection)
        else:
            name, callback = getattr(one, "__qualname__", type(one).__qualname__), _as_callback(one)
        taken = sum(name == other.partition(" #")[0] for other, _ in named)
        named.append((f"{name} #{taken + 1}" if taken else name, callback))
    return named


def _as_callback(value: Any, selection: Selection | None = None) -> Any:
    """What is given as a callback, or what the target of a component made; refuses what is none."""
    is_class = isinstance(value, type)
    if not is_class and any(callable(getattr(value, method, None)) for method in METHODS):
        who = f"callback {(selection.use if selection else type(value).__qualname__)!r}"
        require_signatures(value, Callback, (*METHODS, "state_dict", "load_state_dict"), who)
        return value
    if callable(value) and not is_class:
        return _OnEpoch(value)
    shown = (
        f"{'the class' if is_class else 'an object of the class'} {(value if is_class else type(value)).__qualname__}"
    )
    raise RequestError(
        f"callbacks= was given {shown}"
        if selection is None
        else f"callback {selection.use!r} is none: it made {shown}",
        expected=f"a component's name or table, a function of the run, or an object with {', '.join(METHODS)}",
        help="give an instance of the class" if is_class else "write one of these methods",
    )


class _OnEpoch:
    """A function as a callback."""

    def __init__(self, function: Callable[[RunInProgress], None]) -> None:
        self.on_epoch = function


def _guarded(name: str, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except RAISED as error:
        text = str(error) if isinstance(error, StateError) else f"{type(error).__name__}: {error}"
        told = error if isinstance(error, MazeError) else MazeError(text)
        raised = ComponentError(
            f"callback {name} failed in {method}: {told.what}",
            phase=f"callback {name}, {method}",
            owner=f"callback {name}",
            received=told.received,
            expected=told.expected,
            nearest=told.nearest,
            help=told.help or "correct the callback, or leave it out; the run can go on",
        )
        if isinstance(error, StateError):
            raise raised from None
        raised.user_traceback = None if isinstance(error, MazeError) else user_traceback(error)
        raise raised from error
