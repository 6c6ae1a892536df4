"""Nodes of a graph that is compiled, and passes over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node


def tensor_of(node: Any) -> Tensor:
    """The shape, strides and type of what a node gives, without numbers."""
    tensor: Tensor = node.meta["val"]
    return tensor


def arguments_of(node: Node) -> tuple[Any, ...]:
    """What a node is called with: nodes and constants."""
    return node.args


def insert(graph: Graph, operation: Any, *arguments: Any) -> Node:
    """A call of an operation where the graph inserts now, with what it gives noted."""
    inserted = graph.call_function(operation, arguments)
    values = tuple(own.meta["val"] if isinstance(own, Node) else own for own in arguments)
    inserted.meta["val"] = operation(*values)
    # The compiler holds inserted operations to the strides that they want (`torch.Tag`) only where it finds these
    inserted.meta["eager_input_vals"] = values, {}
    return inserted


class InTurn(CustomGraphPass):
    """Several passes, one behind the other."""

    def __init__(self, passes: Sequence[CustomGraphPass]) -> None:
        self._passes = passes

    def __call__(self, graph: Graph) -> None:
        """See the class."""
        for own in self._passes:
            own(graph)

    def uuid(self) -> Any:
        """Tells what was compiled with these from other code in the cache on disk.

        Torch keeps code for vectors of 512 bits there, and takes it where it has been told that they have 256.
        """
        return (torch.backends.cpu.get_cpu_capability(), *(own.uuid() for own in self._passes))
