"""What the loop asks of a trainer, looked at where the trainer is built and after each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

from maze_kernel.contracts.trainer import Trainer
from maze_kernel.errors import ComponentError, RequestError
from maze_runtime.env.blame import require_signatures

if TYPE_CHECKING:
    from maze_kernel.selection import Selection

_ATTRIBUTES = ("options", "model", "env_steps")
_METHODS = ("start_segment", "train_epoch", "state_dict", "load_state_dict", "close")


def require_trainer(trainer: Any, selection: Selection) -> None:
    """Refuse what is no trainer.

    Raises:
        RequestError: names what is missing, or a method that cannot be called as it is.
    """
    who = f"trainer {selection.use!r}"
    missing = [name for name in (*_ATTRIBUTES, *_METHODS) if not hasattr(trainer, name)]
    if missing:
        raise RequestError(
            f"{who} lacks {', '.join(missing)}",
            received=type(trainer).__qualname__,
            expected=f"an object with the attributes {', '.join(_ATTRIBUTES)} and the methods {', '.join(_METHODS)}",
            help="write what is missing; maze_kernel.contracts.trainer.Trainer says what it is",
        )
    if not callable(getattr(trainer.model, "state_dict", None)):
        raise RequestError(
            f"the model of {who} has no weights to save",
            received=type(trainer.model).__qualname__,
            expected="what context.make_model() gives",
            help="keep the model that is trained in the attribute model",
        )
    require_signatures(trainer, Trainer, _METHODS, who)


def require_step_count(trainer: Trainer, selection: Selection) -> None:
    """Refuse a trainer that counts no steps any more.

    Raises:
        ComponentError: `env_steps` is no whole number.
    """
    if not isinstance(trainer.env_steps, Integral):
        raise ComponentError(
            f"env_steps of trainer {selection.use!r} is no number after train_epoch",
            phase="train_epoch",
            location=selection.location,
            received=type(trainer.env_steps).__name__,
            expected="the number of steps so far, 0 where none are taken",
            owner=selection.owner,
            help="correct the trainer",
        )


def checked_state(state: Any, selection: Selection) -> Mapping[str, Any]:
    """What `state_dict` returned.

    Raises:
        ComponentError: it is no dict.
    """
    if isinstance(state, Mapping):
        return state
    raise ComponentError(
        f"state_dict of trainer {selection.use!r} returned no dict",
        phase="state_dict",
        location=selection.location,
        received=type(state).__name__,
        expected="a dict, {} where there is nothing to save",
        owner=selection.owner,
        help="return what load_state_dict is to get",
    )
