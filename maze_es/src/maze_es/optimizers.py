"""Optimisers on one flat vector of weights: gradient in, change of the weights out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from maze_es.options import AdamOptions, SGDOptions, TorchOptimizerOptions


class Optimizer(Protocol):
    """Holds its running means; the weights stay with the caller."""

    def step(self, gradient: np.ndarray, step_size: float, weights: np.ndarray) -> np.ndarray:
        """What to add to the `weights` to descend `gradient`, all (P,) float32, at the `step_size` of this update."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Adam:
    """Adam with bias correction. Source: Kingma and Ba 2015, algorithm 1."""

    def __init__(self, n_weights: int, options: AdamOptions) -> None:
        self._options = options
        self._mean = np.zeros(n_weights, np.float32)
        self._square = np.zeros(n_weights, np.float32)
        self._n_steps = 0

    def step(self, gradient: np.ndarray, step_size: float, weights: np.ndarray) -> np.ndarray:
        """See `Optimizer.step`."""
        options = self._options
        self._n_steps += 1
        # m = β₁ m + (1 − β₁) g;  v = β₂ v + (1 − β₂) g²
        self._mean += np.float32(1.0 - options.beta1) * (gradient - self._mean)
        self._square += np.float32(1.0 - options.beta2) * (gradient * gradient - self._square)
        # Δθ = −α · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)
        rate = step_size / (1.0 - options.beta1**self._n_steps)
        root = np.sqrt(self._square / np.float32(1.0 - options.beta2**self._n_steps))
        change: np.ndarray = -np.float32(rate) * self._mean / (root + np.float32(options.epsilon))
        return change

    def state_dict(self) -> dict[str, Any]:
        """Moments and step count."""
        return {"mean": self._mean.copy(), "square": self._square.copy(), "n_steps": self._n_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._mean = np.array(state["mean"], np.float32)
        self._square = np.array(state["square"], np.float32)
        self._n_steps = int(state["n_steps"])


class SGD:
    """Descends a running mean of the gradients: v = β v + (1 − β) g, Δθ = −α v."""

    def __init__(self, n_weights: int, options: SGDOptions) -> None:
        self._options = options
        self._mean = np.zeros(n_weights, np.float32)

    def step(self, gradient: np.ndarray, step_size: float, weights: np.ndarray) -> np.ndarray:
        """See `Optimizer.step`."""
        self._mean += np.float32(1.0 - self._options.momentum) * (gradient - self._mean)
        change: np.ndarray = -np.float32(step_size) * self._mean
        return change

    def state_dict(self) -> dict[str, Any]:
        """The running mean."""
        return {"mean": self._mean.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._mean = np.array(state["mean"], np.float32)


def make_optimizer(n_weights: int, options: AdamOptions | SGDOptions | TorchOptimizerOptions) -> Optimizer:
    """The optimiser that its options name.

    Raises:
        RequestError: torch has no such optimiser, or it refuses its arguments.
    """
    if isinstance(options, TorchOptimizerOptions):
        from maze_es.torch_optimizer import TorchOptimizer

        return TorchOptimizer(n_weights, options)
    return Adam(n_weights, options) if isinstance(options, AdamOptions) else SGD(n_weights, options)
