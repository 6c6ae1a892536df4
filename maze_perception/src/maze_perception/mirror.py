"""What NumPy twins of blocks share: live views of parameters, and activations in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from maze_perception.fast_tanh import tanh_


class ParameterArrays:
    """NumPy views of parameters on the CPU, which follow in-place updates.

    A parameter whose storage was replaced (moved into a flat buffer, say) is viewed anew at the next call.

    Args:
        parameters: matrices are viewed transposed.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = tuple(parameters)
        self._view()

    def _view(self) -> None:
        self._pointers = [parameter.data_ptr() for parameter in self._parameters]
        self._arrays = [parameter.detach().numpy().T for parameter in self._parameters]

    def __call__(self) -> list[np.ndarray]:
        """The views, in the order of the parameters."""
        for parameter, pointer in zip(self._parameters, self._pointers, strict=True):
            if parameter.data_ptr() != pointer:
                self._view()
                break
        return self._arrays


def _relu(x: np.ndarray) -> None:
    np.maximum(x, 0.0, out=x)


def _tanh(x: np.ndarray) -> None:
    np.tanh(x, out=x)


def sigmoid_in_place(x: np.ndarray) -> None:
    """The logistic function of every number of a float array, which is overwritten."""
    # sigmoid(x) = ½ (1 + tanh(x / 2)), which cannot overflow
    x *= 0.5
    np.tanh(x, out=x)
    x += 1.0
    x *= 0.5


def _elu(x: np.ndarray) -> None:
    np.maximum(x, np.expm1(np.minimum(x, 0.0)), out=x)


def _leaky_relu(x: np.ndarray) -> None:
    np.maximum(x, np.float32(0.01) * x, out=x)


def _silu(x: np.ndarray) -> None:
    gate = x.copy()
    sigmoid_in_place(gate)
    x *= gate


def _softplus(x: np.ndarray) -> None:
    np.logaddexp(np.float32(0.0), x, out=x)


def _identity(x: np.ndarray) -> None:
    pass


def _unchanged(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], None] | None]] = {
    "relu": (torch.relu, _relu),
    "tanh": (torch.tanh, _tanh),
    "sigmoid": (torch.sigmoid, sigmoid_in_place),
    "elu": (functional.elu, _elu),
    "leaky-relu": (functional.leaky_relu, _leaky_relu),
    "silu": (functional.silu, _silu),
    "softplus": (functional.softplus, _softplus),
    "gelu": (functional.gelu, None),
    "identity": (_unchanged, _identity),
}
"""Name in `non_lin` to the torch function and its NumPy twin in place, None where it has none."""

IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": tanh_,
    "sigmoid": torch.sigmoid_,
}
"""Torch functions that write to their argument, of activations whose gradient needs nothing but their result."""
