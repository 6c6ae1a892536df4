"""Convolutions in compiled code; see `maze_runtime.native.convolutions`."""

from __future__ import annotations

import operator
from typing import Any

import attrs
import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from maze_runtime.native import convolutions
from maze_runtime.native.convolutions import (
    ConvolutionSizes,
    native_convolution,
    native_filter_gradients,
    native_gradients,
    sizes_that_pay,
)
from maze_runtime.training import graph_nodes
from maze_runtime.training.graph_nodes import arguments_of, insert, tensor_of

_aten, _prims = torch.ops.aten, torch.ops.prims


class NativeConvolutions(CustomGraphPass):
    """Exchanges convolutions of float32 images in a graph that is compiled for the CPU.

    Those for which `ConvolutionSizes.points` says so, if channels lie side by side in memory. What stands beside them
    is taken along, which saves passes over all images: bytes that become numbers, and rectifiers behind the outputs.
    """

    def __call__(self, graph: Graph) -> None:
        """Exchange them in place."""
        for node in list(graph.nodes):
            if node.target is _aten.convolution.default and (found := _Forward.read(node)):
                found.exchange(graph, node)
            elif node.target is _aten.convolution_backward.default and (backward := _Backward.read(node)):
                backward.exchange(graph, node)
        graph.eliminate_dead_code()

    def uuid(self) -> Any:
        """Tells what was compiled with this pass from other code in the cache on disk."""
        return get_hash_for_files((__file__, convolutions.__file__, graph_nodes.__file__), f"{torch.get_num_threads()}")


@attrs.frozen
class _Forward:
    x: Node
    weight: Node
    bias: Node | None
    sizes: ConvolutionSizes

    @classmethod
    def read(cls, node: Node) -> _Forward | None:
        x, weight, bias, *settings = arguments_of(node)
        sizes = _sizes(x, weight, node, settings)
        if sizes is None or not (bias is None or tensor_of(bias).is_contiguous()):
            return None
        return cls(x, weight, bias, sizes)

    def exchange(self, graph: Graph, node: Node) -> None:
        users = list(node.users)
        is_rectified = len(users) == 1 and users[0].target is _aten.relu.default
        replaced = users[0] if is_rectified else node
        images, scale = _as_bytes(self.x)
        sizes, points = self.sizes, self.sizes.points()
        with graph.inserting_before(replaced):
            settings = sizes.stride, sizes.padding, points, torch.get_num_threads(), scale, is_rectified
            replaced.replace_all_uses_with(insert(graph, native_convolution, images, self.weight, self.bias, *settings))
        graph.erase_node(replaced)
        if is_rectified:
            graph.erase_node(node)


@attrs.frozen
class _Backward:
    gradient: Node
    x: Node
    weight: Node
    sizes: ConvolutionSizes
    gives_x: bool

    @classmethod
    def read(cls, node: Node) -> _Backward | None:
        gradient, x, weight, _, *settings, wanted = arguments_of(node)
        sizes = _sizes(x, weight, gradient, settings)
        if sizes is None or not wanted[1] or not all(user.target is operator.getitem for user in node.users):
            return None
        return cls(gradient, x, weight, sizes, wanted[0])

    def exchange(self, graph: Graph, node: Node) -> None:
        gradient, out = _behind_rectifier(self.gradient)
        images, scale = (self.x, 1.0) if self.gives_x else _as_bytes(self.x)
        sizes, points = self.sizes, self.sizes.points()
        settings = sizes.stride, sizes.padding, points, torch.get_num_threads()
        with graph.inserting_before(node):
            if self.gives_x:
                gradients = insert(graph, native_gradients, gradient, images, self.weight, out, *settings)
            else:
                gradients = insert(graph, native_filter_gradients, gradient, images, self.weight, out, *settings, scale)
            for user in list(node.users):
                own = insert(graph, operator.getitem, gradients, arguments_of(user)[1] - (not self.gives_x))
                user.replace_all_uses_with(own)
                graph.erase_node(user)
        graph.erase_node(node)


def _sizes(x: Any, weight: Any, out: Any, settings: Any) -> ConvolutionSizes | None:
    """None where it is not of the kind that these describe, a shape is unknown, or it does not pay."""
    strides, paddings, dilations, is_transposed, _, n_groups = settings
    images, filters, outputs = tensor_of(x), tensor_of(weight), tensor_of(out)
    if filters.dim() != 4 or is_transposed or n_groups != 1 or any(own != 1 for own in dilations):
        return None
    if any(own.dtype != torch.float32 or own.device.type != "cpu" for own in (images, filters, outputs)):
        return None
    if not (_is_channels_last(images) and _is_channels_last(outputs) and filters.is_contiguous()):
        return None
    if not all(isinstance(size, int) for size in (*images.shape, *filters.shape)):
        return None
    return sizes_that_pay(tuple(images.shape), tuple(filters.shape), strides, paddings)


def _is_channels_last(images: Tensor) -> bool:
    _, channels, height, width = images.shape
    expected = height * width * channels, 1, width * channels, channels
    return all(
        size == 1 or own == wanted for size, own, wanted in zip(images.shape, images.stride(), expected, strict=True)
    )


def _as_bytes(x: Node) -> tuple[Node, float]:
    """Bytes and what each of them counts, where images were made of such; else x and 1."""
    made, scale = x, 1.0
    if _calls(x, _aten.mul.Tensor) and isinstance(arguments_of(x)[1], float):
        made, scale = arguments_of(x)
    elif _calls(x, _aten.div.Tensor) and isinstance(arguments_of(x)[1], int | float):
        made, scale = arguments_of(x)[0], 1.0 / arguments_of(x)[1]
    if not _calls(made, _prims.convert_element_type.default):
        return x, 1.0
    numbers = arguments_of(made)[0]
    is_of_bytes = tensor_of(numbers).dtype == torch.uint8 and _is_channels_last(tensor_of(numbers))
    return (numbers, scale) if is_of_bytes else (x, 1.0)


def _behind_rectifier(gradient: Node) -> tuple[Node, Node | None]:
    """The gradient of rectified outputs and these, where `gradient` is that of what was rectified; else it and None."""
    if not _calls(gradient, _aten.where.self):
        return gradient, None
    is_stopped, zeros, passed = arguments_of(gradient)
    if not (_calls(is_stopped, _aten.le.Scalar) and arguments_of(is_stopped)[1] == 0):
        return gradient, None
    if not (_calls(zeros, _aten.full.default) and arguments_of(zeros)[1] == 0.0 and isinstance(passed, Node)):
        return gradient, None
    out: Node = arguments_of(is_stopped)[0]
    of_same_shape = tensor_of(out).shape == tensor_of(gradient).shape == tensor_of(passed).shape
    fits = of_same_shape and all(
        tensor_of(own).dtype == torch.float32 and _is_channels_last(tensor_of(own)) for own in (passed, out)
    )
    return (passed, out) if fits else (gradient, None)


def _calls(node: Any, operation: Any) -> bool:
    return isinstance(node, Node) and node.target is operation
