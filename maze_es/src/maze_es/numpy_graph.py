"""A traced graph of tensor operations as NumPy calls: on small networks a call of torch outweighs its arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Graph, GraphModule, Node
from torch.nn import Module

_aten: Any = torch.ops.aten
Arrays = tuple[np.ndarray, ...]


def numpy_form(traced: GraphModule) -> Callable[..., Arrays]:
    """The same function of arrays.

    Args:
        traced: returns a tuple of tensors, made by operations of dense and recurrent networks and masks.

    Raises:
        NotImplementedError: another operation.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        copy = copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op in ("placeholder", "output"):
            continue
        if node.target not in _FORMS:
            raise NotImplementedError(f"{node.target} has no form in NumPy")
        copy.target = _FORMS[node.target]
    run: Callable[..., Arrays] = GraphModule(Module(), graph).forward
    return run


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, A, B) and (N, B, C) to (N, A, C)."""
    product: np.ndarray = np.matmul(a, b)
    return product


def _sum(a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
    return a + b


def _scaled(a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
    return a * b


def _tanh(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.tanh(a)
    return result


def _relu(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.maximum(a, np.float32(0.0))
    return result


def _tanh_in_place(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.tanh(a, out=a)
    return result


def _relu_in_place(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.maximum(a, np.float32(0.0), out=a)
    return result


def _reshaped(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return a.reshape(shape)


def _unsqueezed(a: np.ndarray, axis: int) -> np.ndarray:
    return a.reshape(*a.shape[:axis], 1, *a.shape[axis:])  # `expand_dims` takes five times as long


def _squeezed(a: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return a.squeeze(tuple(axes))


def _equals(a: np.ndarray, b: float) -> np.ndarray:
    result: np.ndarray = np.equal(a, b)
    return result


def _filled(a: np.ndarray, mask: np.ndarray, value: float) -> np.ndarray:
    return np.where(mask, np.float32(value), a)


def _joined(arrays: Sequence[np.ndarray], axis: int = 0) -> np.ndarray:
    return np.concatenate(arrays, axis)


def _expanded(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """To a shape of as many sizes or more; −1 keeps one."""
    kept = (1,) * (len(shape) - a.ndim) + a.shape
    return np.broadcast_to(a, [own if size == -1 else size for size, own in zip(shape, kept, strict=True)])


def _sigmoid(a: np.ndarray) -> np.ndarray:
    """As a hyperbolic tangent, which does not overflow."""
    result: np.ndarray = np.float32(0.5) * np.tanh(np.float32(0.5) * a) + np.float32(0.5)
    return result


def _subtracted(a: np.ndarray, b: float) -> np.ndarray:
    """b − a."""
    return b - a


def _selected(a: np.ndarray, axis: int, index: int) -> np.ndarray:
    where: Any = (*(slice(None),) * axis, index)
    result: np.ndarray = a[where]
    return result


def _sliced(a: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    result: np.ndarray = a[(*(slice(None),) * axis, slice(start, end))]
    return result


def _split(a: np.ndarray, size: int, axis: int) -> list[np.ndarray]:
    return [_sliced(a, axis, start, start + size) for start in range(0, a.shape[axis], size)]


def _as_it_is(a: np.ndarray) -> np.ndarray:
    return a


def _permuted(a: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return a.transpose(axes)


def _stacked(arrays: Sequence[np.ndarray], axis: int = 0) -> np.ndarray:
    return np.stack(arrays, axis)


_FORMS: dict[Any, Callable[..., Any]] = {
    _aten.bmm.default: _product,
    _aten.add.Tensor: _sum,
    _aten.mul.Tensor: _scaled,
    _aten.tanh.default: _tanh,
    _aten.relu.default: _relu,
    _aten.tanh_.default: _tanh_in_place,
    _aten.relu_.default: _relu_in_place,
    _aten.view.default: _reshaped,
    _aten._unsafe_view.default: _reshaped,
    _aten.unsqueeze.default: _unsqueezed,
    _aten.squeeze.dims: _squeezed,
    _aten.eq.Scalar: _equals,
    _aten.masked_fill.Scalar: _filled,
    _aten.cat.default: _joined,
    _aten.expand.default: _expanded,
    _aten.sigmoid.default: _sigmoid,
    _aten.rsub.Scalar: _subtracted,
    _aten.select.int: _selected,
    _aten.slice.Tensor: _sliced,
    _aten.split.Tensor: _split,
    _aten.alias.default: _as_it_is,
    _aten.permute.default: _permuted,
    _aten.stack.default: _stacked,
    operator.getitem: operator.getitem,
}
