"""Any optimiser of torch on the flat vector of weights; its state is saved, so that a resumed run is exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from maze_es.options import TorchOptimizerOptions
from maze_kernel.catalog import nearest
from maze_kernel.components import load_attribute
from maze_kernel.errors import RequestError


class TorchOptimizer:
    """An `Optimizer` that lets one of torch step a copy of the weights.

    Raises:
        RequestError: there is no such class, or it refuses its arguments or a gradient without a loss.
    """

    def __init__(self, n_weights: int, options: TorchOptimizerOptions) -> None:
        self._weights = torch.nn.Parameter(torch.zeros(n_weights))
        optimizer_class = _optimizer_class(options.name)
        try:
            _try_out(optimizer_class, options)
            self._optimizer: Any = optimizer_class([self._weights], **options.kwargs)
        except Exception as error:
            raise _refused(f"{options.name} refuses to optimise: {type(error).__name__}: {error}") from error

    def step(self, gradient: np.ndarray, step_size: float, weights: np.ndarray) -> np.ndarray:
        """See `Optimizer.step`."""
        before = torch.from_numpy(weights)
        with torch.no_grad():
            self._weights.copy_(before)
        self._weights.grad = torch.from_numpy(np.asarray(gradient, np.float32))
        for group in self._optimizer.param_groups:
            group["lr"] = step_size
        self._optimizer.step()
        change: np.ndarray = (self._weights.detach() - before).numpy()
        return change

    def state_dict(self) -> dict[str, Any]:
        """What the optimiser keeps of the vector: tensors and numbers by name."""
        state = self._optimizer.state_dict()["state"].get(0, {})
        return {"torch": {name: _copied(value) for name, value in state.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        whole = self._optimizer.state_dict()
        whole["state"] = {0: {name: _copied(value) for name, value in state["torch"].items()}} if state["torch"] else {}
        self._optimizer.load_state_dict(whole)


def _optimizer_class(name: str) -> Any:
    try:
        found = load_attribute(name) if ":" in name else getattr(torch.optim, name)
    except (ImportError, AttributeError) as error:
        known = [other for other, value in vars(torch.optim).items() if _is_optimizer(value)]
        raise _refused(f"there is no optimiser {name!r}: {error}", nearest=nearest(name, known)) from error
    if not _is_optimizer(found):
        raise _refused(f"{name!r} is no class of torch.optim.Optimizer", received=type(found).__name__)
    return found


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer


def _try_out(optimizer_class: Any, options: TorchOptimizerOptions) -> None:
    """One step elsewhere finds out what the class cannot do."""
    weights = torch.nn.Parameter(torch.zeros(2))
    weights.grad = torch.zeros(2)
    optimizer_class([weights], **options.kwargs).step()


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _refused(what: str, **details: Any) -> RequestError:
    return RequestError(
        what,
        option="optimizer",
        owner="maze-es",
        help='name a class of torch.optim that needs gradients only, such as "RMSprop", or "package.module:Class"',
        **details,
    )
