"""Any optimiser of torch on the flat vector of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from maze_es.options import TorchOptimizerOptions
from maze_runtime.training.torch_optimizer import load_optimizer_state, optimizer_state, torch_optimizer


class TorchOptimizer:
    """An `Optimizer` that lets one of torch step a copy of the weights.

    Raises:
        RequestError: see `maze_runtime.training.torch_optimizer.torch_optimizer`.
    """

    def __init__(self, n_weights: int, options: TorchOptimizerOptions) -> None:
        self._weights = torch.nn.Parameter(torch.zeros(n_weights))
        self._optimizer = torch_optimizer(options, [self._weights], "maze-es")

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
        return {"torch": optimizer_state(self._optimizer)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        load_optimizer_state(self._optimizer, state["torch"])
