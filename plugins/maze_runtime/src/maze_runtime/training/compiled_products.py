"""Products of matrices in compiled code; see `maze_runtime.models.wide_products`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from maze_runtime.models.wide_products import FEWEST, wide_linear
from maze_runtime.native.products import MOST, native_product
from maze_runtime.training import graph_nodes
from maze_runtime.training.graph_nodes import insert, tensor_of

_aten = torch.ops.aten


class WideProducts(CustomGraphPass):
    """Exchanges products of float32 matrices in a graph that is compiled for the CPU.

    `products.cpp` takes small ones, and large ones on one thread. The rest is MKL's, or oneDNN's.

    Args:
        native: `products.cpp` is there.
        onednn: MKL serves large ones badly here; see `USES_ONEDNN`.
    """

    def __init__(self, *, native: bool, onednn: bool) -> None:
        self._native = native
        self._onednn = onednn

    def __call__(self, graph: Graph) -> None:
        """Exchange them in place."""
        for node in list(graph.nodes):
            n_products = _multiply_adds(node)
            is_large = n_products >= FEWEST
            if n_products and self._native and (not is_large or _on_one_thread(n_products)):
                _call_native(graph, node)
            elif is_large and self._onednn:
                _call_onednn(graph, node)

    def uuid(self) -> Any:
        """Tells what was compiled with this pass from other code in the cache on disk."""
        limits, libraries = f"{FEWEST} {MOST} {torch.get_num_threads()}", f"{self._native} {self._onednn}"
        return get_hash_for_files((__file__, graph_nodes.__file__), f"{limits} {libraries}")


def _on_one_thread(n_products: int) -> bool:
    return n_products <= MOST and torch.get_num_threads() == 1


def _multiply_adds(node: Node) -> int:
    """How many a product of float32 matrices on the CPU takes; 0 for other nodes, and where a shape is unknown."""
    if node.target not in (_aten.mm.default, _aten.addmm.default) or node.kwargs:
        return 0
    *added, left, right = [tensor_of(own) for own in node.args]
    if any(own.dim() != 1 for own in added):
        return 0
    if any(own.dtype != torch.float32 or own.device.type != "cpu" for own in (left, right)):
        return 0
    n_products = left.numel() * right.shape[1]
    return n_products if isinstance(n_products, int) else 0


def _call_native(graph: Graph, node: Node) -> None:
    with graph.inserting_before(node):
        _put(graph, node, insert(graph, native_product, *_bias_last(node)))


def _call_onednn(graph: Graph, node: Node) -> None:
    left, right, bias = _bias_last(node)
    with graph.inserting_before(node):
        if bias is None and _is_narrow_gradient(tensor_of(left), tensor_of(right)):
            # (A B)ᵀ = Bᵀ Aᵀ
            product = _turned(graph, insert(graph, wide_linear, _turned(graph, right), left, None))
        else:
            product = insert(graph, wide_linear, left, _turned(graph, right), bias)
        _put(graph, node, product)


def _bias_last(node: Node) -> tuple[Any, Any, Any]:
    *added, left, right = node.args
    return left, right, added[0] if added else None


def _is_narrow_gradient(left: Tensor, right: Tensor) -> bool:
    """Whether rows are summed over to a matrix that is taller than wide; see `wide_products`."""
    (n_tall, n_rows), n_wide = left.shape, right.shape[1]
    return n_rows > n_tall > n_wide


def _put(graph: Graph, node: Node, product: Node) -> None:
    node.replace_all_uses_with(product)
    graph.erase_node(node)


def _turned(graph: Graph, matrix: Node) -> Node:
    turned = graph.call_function(_aten.permute.default, (matrix, [1, 0]))
    turned.meta["val"] = tensor_of(matrix).t()
    return turned
