"""Which modules and distributions run the same tensor operations at every call, so that these may be recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from torch import nn

ClassT = TypeVar("ClassT", bound=type)

_OF_TORCH = {
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ELU,
    nn.Flatten,
    nn.GELU,
    nn.Identity,
    nn.LayerNorm,
    nn.LeakyReLU,
    nn.Linear,
    nn.MaxPool2d,
    nn.ModuleDict,
    nn.ModuleList,
    nn.ParameterList,
    nn.ReLU,
    nn.Sequential,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def same_operations(cls: ClassT) -> ClassT:
    """Mark a class whose instances compute by the same tensor operations at every call with tensors of the same shapes.

    Whatever the numbers in them are: no branch looks at one, nothing is drawn, and nothing that changes is read but
    arguments, parameters and buffers. Subclasses are not marked by this.

        >>> @same_operations
        ... class Halved(nn.Module):
        ...     def forward(self, x):
        ...         return 0.5 * x
        >>> runs_same_operations([Halved(), nn.Linear(3, 2)])
        True
        >>> runs_same_operations([nn.Dropout()])
        False
    """
    cls._has_same_operations = cls  # type: ignore[attr-defined]
    return cls


def runs_same_operations(parts: Iterable[Any]) -> bool:
    """Whether every one of these objects is marked, or a plain layer of torch."""
    return all(_is_marked(part) for part in parts)


def model_runs_same_operations(model: nn.Module) -> bool:
    """The same for all modules and all distributions of an actor-critic."""
    distributions = list(getattr(model, "distributions", {}).values())
    heads = [head for one in distributions for head in getattr(one, "heads", {}).values()]
    return runs_same_operations([*model.modules(), *distributions, *heads])


class FixedOperations:
    """Whether networks run the same operations at every call, and still do.

    Args:
        networks: of classes that are marked, or not.
        trained: parameters of them that need a gradient.
    """

    def __init__(self, networks: Sequence[nn.Module], trained: Sequence[nn.Parameter] = ()) -> None:
        self._trained = trained
        self._hooks = [hooks for one in networks for hooks in hooks_of(one)]
        self.are_marked = all(map(model_runs_same_operations, networks))

    def are_fixed(self) -> bool:
        """They are marked, and since this was made nobody hung hooks on them or froze a part of what is trained."""
        return self.are_marked and not self.were_changed()

    def were_changed(self) -> bool:
        """Whether somebody did."""
        return any(self._hooks) or any(
            [not parameter.requires_grad or parameter._backward_hooks for parameter in self._trained]  # noqa: C419 - faster
        )


def hooks_of(model: nn.Module) -> list[Any]:
    """Where the modules of a model keep their hooks: collections that are empty as long as there are none."""
    return [getattr(module, name) for module in model.modules() for name in _HOOKS]


def _is_marked(part: Any) -> bool:
    kind = type(part)
    return kind in _OF_TORCH or getattr(kind, "_has_same_operations", None) is kind
