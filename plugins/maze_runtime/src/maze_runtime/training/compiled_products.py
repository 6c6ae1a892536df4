"""Large products of matrices in compiled code; see `maze_runtime.models.wide_products`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from maze_runtime.models.wide_products import FEWEST, wide_linear

_aten = torch.ops.aten


class WideProducts(CustomGraphPass):
    """Hands large products of float32 matrices to oneDNN, in a graph that is compiled for the CPU."""

    def __call__(self, graph: Graph) -> None:
        """Exchange them in place."""
        for node in list(graph.nodes):
            if _is_large_product(node):
                _exchange(graph, node)

    def uuid(self) -> Any:
        """Tells what was compiled with this pass from other code in the cache on disk."""
        return get_hash_for_files((__file__,), str(FEWEST))


def _is_large_product(node: Node) -> bool:
    if node.target not in (_aten.mm.default, _aten.addmm.default) or node.kwargs:
        return False
    *added, left, right = [_tensor_of(own) for own in node.args]
    n_products = left.numel() * right.shape[1]
    return (
        isinstance(n_products, int)  # else a shape is not known yet
        and n_products >= FEWEST
        and all(own.dim() == 1 for own in added)
        and all(own.dtype == torch.float32 and own.device.type == "cpu" for own in (left, right))
    )


def _exchange(graph: Graph, node: Node) -> None:
    bias: Any
    left: Any
    right: Any
    bias, left, right = node.args if len(node.args) == 3 else (None, *node.args)
    with graph.inserting_before(node):
        if bias is None and _is_narrow_gradient(_tensor_of(left), _tensor_of(right)):
            # (A B)ᵀ = Bᵀ Aᵀ
            product = _turned(graph, _product(graph, _turned(graph, right), left, None))
        else:
            product = _product(graph, left, _turned(graph, right), bias)
    node.replace_all_uses_with(product)
    graph.erase_node(node)


def _is_narrow_gradient(left: Tensor, right: Tensor) -> bool:
    """Whether rows are summed over to a matrix that is taller than wide; see `wide_products`."""
    (n_tall, n_rows), n_wide = left.shape, right.shape[1]
    return n_rows > n_tall > n_wide


def _product(graph: Graph, x: Node, weight: Node, bias: Node | None) -> Node:
    node = graph.call_function(wide_linear, (x, weight, bias))
    node.meta["val"] = _tensor_of(x).new_empty((_tensor_of(x).shape[0], _tensor_of(weight).shape[0]))
    return node


def _turned(graph: Graph, matrix: Node) -> Node:
    node = graph.call_function(_aten.permute.default, (matrix, [1, 0]))
    node.meta["val"] = _tensor_of(matrix).t()
    return node


def _tensor_of(node: Any) -> Tensor:
    tensor: Tensor = node.meta["val"]
    return tensor
