"""What a user's module is made of, found by watching it run: its layers, and which of them reads what.

Layers are the modules that hold no others, those of torch.nn, and perception blocks. Whatever lies between them (torch
functions, layers without parameters that leave the shape as it is) is not drawn: what it reads flows through it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from maze_kernel.contracts.networks import BlockNode
from maze_perception.block import BlockError, PerceptionBlock, Shape, TensorDict, run_on_zeros
from maze_runtime.models.graph_building import count_parameters

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)

Inner = tuple[tuple[BlockNode, ...], dict[str, Shape]]
"""Blocks in the order in which they run, and the shapes of the tensors between them."""


def inner_blocks(name: str, block: PerceptionBlock, module: nn.Module) -> Inner:
    """The layers of `module`, which `block` runs; one block for all where there is nothing to see inside.

    Args:
        name: of the block; inner ones are called `name.path`.
        block: from its inputs to its outputs; run on zeros once.
    """
    whole = BlockNode(
        name=name,
        kind=type(module).__name__,
        in_keys=block.in_keys,
        out_keys=block.out_keys,
        n_parameters=count_parameters(block),
    )
    recorder = _Recorder(name)
    try:
        outputs = recorder.watch(block, module)
    except BlockError:
        return (whole,), {}
    if not recorder.nodes:
        return (whole,), {}
    return recorder.finished(whole, outputs)


class _Recorder(TorchFunctionMode):
    """Notes for every tensor which inputs and layers it was made of, and for every layer what it was called with."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._sources: dict[int, dict[str, None]] = {}
        self._kept: list[Tensor] = []  # ids are those of living tensors only
        self._counted: set[int] = set()
        self.nodes: list[BlockNode] = []
        self.shapes: dict[str, Shape] = {}

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sources = self._of(_tensors((args, kwargs)))
        if sources:
            for tensor in _tensors(result):
                self._note(tensor, sources)
        return result

    def watch(self, block: PerceptionBlock, module: nn.Module) -> TensorDict:
        """Run the block on zeros; returns its outputs."""

        def run(inputs: TensorDict) -> TensorDict:
            for key, tensor in inputs.items():
                self._note(tensor, {key: None})
            with self:
                return block(inputs)  # type: ignore[no-any-return]

        hooks = [layer.register_forward_hook(self._hook(path), with_kwargs=True) for path, layer in _layers(module)]
        try:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return run_on_zeros(self._name, block, run, dict(zip(block.in_keys, block.in_shapes, strict=True)))
        finally:
            for hook in hooks:
                hook.remove()

    def finished(self, whole: BlockNode, outputs: TensorDict) -> Inner:
        """The layers; what they do not give as it leaves the block is given by one more box, with the block's name."""
        renamed: dict[str, str] = {}
        for key, tensor in outputs.items():
            sources = list(self._of([tensor]))
            is_whole = len(sources) == 1 and self.shapes.get(sources[0]) == tuple(tensor.shape[1:])
            if is_whole and sources[0] not in renamed:
                renamed[sources[0]] = key
        nodes = [_renamed(node, renamed) for node in self.nodes]
        rest = [key for key in outputs if key not in renamed.values()]
        n_left = whole.n_parameters - sum(node.n_parameters for node in nodes)
        if rest or n_left:
            read = self._of(outputs[key] for key in rest or outputs)
            in_keys = tuple(renamed.get(key, key) for key in read if renamed.get(key, key) not in rest)
            nodes.append(attrs.evolve(whole, in_keys=in_keys, out_keys=tuple(rest), n_parameters=n_left))
        return tuple(nodes), {renamed.get(key, key): shape for key, shape in self.shapes.items()}

    def _hook(self, path: str) -> Any:
        def note(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            read = (args, kwargs)
            if isinstance(layer, PerceptionBlock):
                read = ([args[0][key] for key in layer.in_keys], {})
            inputs, outputs = list(_tensors(read)), list(_tensors(output))
            changes = {tensor.shape for tensor in inputs} != {tensor.shape for tensor in outputs}
            if changes or isinstance(layer, PerceptionBlock) or count_parameters(layer):
                self._add(path, layer, self._of(inputs), outputs)

        return note

    def _add(self, path: str, layer: nn.Module, read: Mapping[str, None], outputs: list[Tensor]) -> None:
        taken = {node.name for node in self.nodes}
        name = first = f"{self._name}.{path}"
        for again in range(2, len(taken) + 3):
            if name not in taken:
                break
            name = f"{first} ({again})"
        keys = [name if index == 0 else f"{name}#{index}" for index in range(len(outputs))]
        for key, tensor in zip(keys, outputs, strict=True):
            self.shapes[key] = tuple(tensor.shape[1:])
            self._note(tensor, {key: None})
        n_parameters = 0 if id(layer) in self._counted else count_parameters(layer)
        self._counted.add(id(layer))
        self.nodes.append(
            BlockNode(
                name=name,
                kind=type(layer).__name__,
                in_keys=tuple(read),
                out_keys=tuple(keys),
                n_parameters=n_parameters,
            )
        )

    def _note(self, tensor: Tensor, sources: Mapping[str, None]) -> None:
        self._sources[id(tensor)] = dict(sources)
        self._kept.append(tensor)

    def _of(self, tensors: Iterable[Tensor]) -> dict[str, None]:
        return {key: None for tensor in tensors for key in self._sources.get(id(tensor), ())}


def _renamed(node: BlockNode, names: Mapping[str, str]) -> BlockNode:
    in_keys, out_keys = (tuple(names.get(key, key) for key in keys) for keys in (node.in_keys, node.out_keys))
    return attrs.evolve(node, in_keys=in_keys, out_keys=out_keys)


def _layers(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        inner = f"{path}{name}"
        if _is_layer(child):
            yield inner, child
        else:
            yield from _layers(child, f"{inner}.")


def _is_layer(module: nn.Module) -> bool:
    if isinstance(module, PerceptionBlock) or not any(True for _ in module.children()):
        return True
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, _CONTAINERS)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
