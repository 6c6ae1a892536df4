"""Splits a function of (weights, observations) into what depends on the weights alone and the rest.

`vmap` costs more than a small network does. Traced once, only its tensor operations remain, and those on
weights alone (slicing, transposing) run once for many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.expand.default)


def trace_in_two(
    function: Callable[..., tuple[Tensor, ...]], weights: Tensor, observations: tuple[Tensor, ...]
) -> tuple[Callable[..., Any], GraphModule]:
    """Two functions with `run(*prepare(weights), *observations) == function(weights, *observations)`.

    Args:
        function: returns a tuple of tensors; its control flow must not depend on the values of tensors.
        weights: an example; later ones have its shape.
        observations: examples, likewise.
    """
    traced = make_fx(function)(weights, *observations)
    _remove_idle_views(traced)
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    late = _dependents(traced.graph, inputs[1:])
    kept = [node for node in traced.graph.nodes if node not in late and any(user in late for user in node.users)]
    prepare, run = Graph(), Graph()
    early_copies: dict[Node, Node] = {}
    late_copies = {node: run.placeholder(f"prepared_{index}") for index, node in enumerate(kept)}
    for node in traced.graph.nodes:
        graph, copies = (run, late_copies) if node in late else (prepare, early_copies)
        if node.op != "output":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    prepare.output(tuple(early_copies[node] for node in kept))
    run.output(tuple(late_copies[node] for node in output.args[0]))
    return GraphModule(traced, prepare), GraphModule(traced, run)


def _remove_idle_views(traced: GraphModule) -> None:
    """Drop views and expansions to the shape a tensor has already; `vmap` leaves many of them.

    Shapes are those that tracing noted. An interpreter of torch makes a progress bar, and with it a lock with a name
    in /dev/shm for a moment, in which the process may be killed.
    """
    for node in list(traced.graph.nodes):
        if node.target in _VIEWS and _shape(node) is not None and _shape(node) == _shape(node.args[0]):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)


def _shape(node: Any) -> torch.Size | None:
    noted = node.meta.get("tensor_meta")
    return None if noted is None else noted.shape


def _dependents(graph: Graph, inputs: list[Node]) -> set[Node]:
    """`inputs`, everything computed from them, and the output."""
    late = set(inputs)
    for node in graph.nodes:
        if node.op == "output" or any(source in late for source in node.all_input_nodes):
            late.add(node)
    return late
