"""Stacks of dense layers in C++, for networks that are evaluated outside torch while their updates are compiled.

In a rollout of eight environments a layer of 64 units is three calls of NumPy that take longer than their arithmetic,
and the values of a whole rollout are some thirty operations of torch, each of them met once and cold.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from torch import Tensor

from maze_runtime.models.processor import HAS_VECTORS
from maze_runtime.native.library import build_library

SOURCE = Path(__file__).with_name("products.cpp")

_ACTIVATIONS = {"identity": 0, "tanh": 1, "relu": 2, "sigmoid": 3}
_N_BUFFERED_SIZES = 8


@cache
def products_library() -> ctypes.CDLL | None:
    """`products.cpp`, built once a process; None where that is not possible."""
    return build_library(SOURCE, calls_torch=True)


@attrs.frozen(kw_only=True)
class DenseLayer:
    """One linear layer and what is applied to its outputs.

    Attributes:
        weight: (units, inputs), float32 on the CPU.
        bias: (units,), or None.
        activation: "tanh", "relu", "sigmoid" or "identity".
    """

    weight: Tensor
    bias: Tensor | None
    activation: str


def can_be_native(activation: str) -> bool:
    """Whether layers with this activation run in C++: not without a compiler, nor with vectors of under 256 bits."""
    return HAS_VECTORS and activation in _ACTIVATIONS and products_library() is not None


class DenseStack:
    """Called with (B, ...) numbers, gives (B, units of the last layer) float32.

    It reads the parameters' own memory, and looks for them anew where their storage was replaced.

    Args:
        layers: see `can_be_native`.
        gives_new_arrays: else a result is overwritten by the next call with the same number of rows.
    """

    def __init__(self, layers: Sequence[DenseLayer], *, gives_new_arrays: bool = False) -> None:
        library = products_library()
        assert library is not None, "ask `can_be_native`"
        self._run = library.dense_layers
        self._run.restype = None
        self._layers = tuple(layers)
        self._parameters = [own for layer in layers for own in (layer.weight, layer.bias) if own is not None]
        self._sizes = (layers[0].weight.shape[1], *(layer.weight.shape[0] for layer in layers))
        self._gives_new_arrays = gives_new_arrays
        self._calls: dict[int, tuple[list[np.ndarray], Any]] = {}
        self._pointers: list[int] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """See the class."""
        if [parameter.data_ptr() for parameter in self._parameters] != self._pointers:
            self._calls.clear()
        call = self._calls.get(len(x))
        arrays, argument = self._prepare(len(x)) if call is None else call
        inputs, result = arrays[0], arrays[-1]
        inputs[...] = x if x.shape == inputs.shape else x.reshape(inputs.shape)
        self._run(argument)
        return result.copy() if self._gives_new_arrays else result

    def _prepare(self, n_rows: int) -> tuple[list[np.ndarray], Any]:
        """Arrays for the inputs and for what each layer gives, and what the function is told."""
        assert all(parameter.is_contiguous() for parameter in self._parameters)
        if len(self._calls) == _N_BUFFERED_SIZES:
            self._calls.clear()
        self._pointers = [parameter.data_ptr() for parameter in self._parameters]
        arrays = [np.empty((n_rows, size), np.float32) for size in self._sizes]
        biases = [None if layer.bias is None else layer.bias.data_ptr() for layer in self._layers]
        told = _DenseLayers(
            n_rows=n_rows,
            n_layers=len(self._layers),
            sizes=_array(ctypes.c_int64, self._sizes),
            activations=_array(ctypes.c_int64, [_ACTIVATIONS[layer.activation] for layer in self._layers]),
            x=arrays[0].ctypes.data,
            weights=_array(ctypes.c_void_p, [layer.weight.data_ptr() for layer in self._layers]),
            biases=_array(ctypes.c_void_p, biases),
            outs=_array(ctypes.c_void_p, [array.ctypes.data for array in arrays[1:]]),
        )
        self._calls[n_rows] = arrays, ctypes.byref(told)
        return self._calls[n_rows]


class _DenseLayers(ctypes.Structure):
    """`DenseLayers` of `products.cpp`."""

    _fields_: ClassVar = [
        ("n_rows", ctypes.c_int64),
        ("n_layers", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("activations", ctypes.POINTER(ctypes.c_int64)),
        ("x", ctypes.c_void_p),
        ("weights", ctypes.POINTER(ctypes.c_void_p)),
        ("biases", ctypes.POINTER(ctypes.c_void_p)),
        ("outs", ctypes.POINTER(ctypes.c_void_p)),
    ]


def _array(kind: Any, numbers: Sequence[Any]) -> Any:
    return (kind * len(numbers))(*numbers)
