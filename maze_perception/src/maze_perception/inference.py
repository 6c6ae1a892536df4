"""Joins blocks into one module by their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.contracts.networks import BlockNode
from maze_perception.block import BlockError, Mirror, Shape, TensorDict, infer_out_shapes
from maze_runtime.models.graph_building import count_parameters
from maze_runtime.models.module_names import module_names
from maze_runtime.models.recurrence import NEXT_STATE, STATE
from maze_runtime.models.same_operations import runs_same_operations, same_operations
from maze_runtime.native.dense import DenseLayer, DenseStack

FLOAT32 = "keeps_float32"
"""Attribute of blocks that compute in float32 in networks of any precision: heads, and what leaves torch."""


@same_operations
class InferenceBlock(nn.Module):
    """Runs blocks in the order their keys demand and returns only the outputs asked for.

    Blocks that no output needs are left out, with their parameters. The states of blocks that carry any are among the
    outputs (`maze_runtime.models.recurrence`).

    Args:
        blocks: name to block.
        inputs: name to shape of one sample, without batch dimension.
        outputs: tensors to return; a mapping renames them: {returned name: tensor}.

    Raises:
        BlockError: duplicate keys, outputs nobody gives, cycles, shapes that do not fit; names the block.
    """

    def __init__(
        self, blocks: Mapping[str, nn.Module], inputs: Mapping[str, Shape], outputs: Sequence[str] | Mapping[str, str]
    ) -> None:
        super().__init__()
        renamed = dict(outputs) if isinstance(outputs, Mapping) else {name: name for name in outputs}
        producers = _producers(blocks, inputs)
        order = _execution_order(blocks, producers, inputs, renamed.values())
        self._in_order: tuple[Any, ...] = tuple(blocks[name] for name in order)
        states = [key for block in self._in_order for key in block.out_keys if key.startswith(NEXT_STATE)]
        renamed |= {key: key for key in states}
        named = zip(module_names(order), order, strict=True)
        self.blocks = nn.ModuleDict({f"{module}_block": blocks[name] for module, name in named})
        self.order = tuple(order)
        self._outputs = tuple(renamed.items())
        self.outputs = renamed
        read = {key for block in self._in_order for key in block.in_keys} | set(renamed.values())
        self.in_shapes = {name: tuple(shape) for name, shape in inputs.items() if name in read}
        self._in_keys = tuple(self.in_shapes)
        self.state_shapes = {name: shape for name, shape in self.in_shapes.items() if name.startswith(STATE)}
        self.shapes = self._check_shapes(producers)
        self.producers = {key: name for key, name in producers.items() if name in order}
        self.precision = torch.float32
        """Of convolutions and matrix products inside blocks; between blocks there is float32 alone."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._in_order = tuple(self.blocks.values())

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, *shape) tensors by name to (B, *shape) tensors by name; further inputs are not read."""
        if torch.compiler.is_compiling():
            return self._run(inputs)
        try:
            return self._run(inputs)
        except (RuntimeError, KeyError, IndexError) as error:
            self._explain(inputs, error)
            raise

    def block_graph(self) -> tuple[tuple[BlockNode, ...], dict[str, Shape]]:
        """The blocks as they are drawn, in the order in which they run, and the shape of every tensor.

        A block may have a method `inner_blocks(name)` that gives both for what is inside it.
        """
        nodes: list[BlockNode] = []
        shapes = dict(self.shapes)
        for name, block in zip(self.order, self._in_order, strict=True):
            inner = getattr(block, "inner_blocks", None)
            own, within = ((_node(name, block),), {}) if inner is None else inner(name)
            nodes += own
            shapes |= within
        return tuple(nodes), shapes

    def make_mirror(self) -> Mirror | None:
        """All blocks in NumPy, or None where one of them has no such form, or computes in another precision."""
        if self.precision != torch.float32:
            return None
        mirrors = []
        for blocks in self._runs():
            mirror = _mirror_of(blocks)
            if mirror is None:
                return None
            mirrors.append(mirror)
        steps, in_keys, outputs = tuple(mirrors), self._in_keys, self._outputs

        def run(inputs: dict[str, Any]) -> dict[str, Any]:
            arrays = {key: inputs[key] for key in in_keys}
            for step in steps:
                arrays.update(step(arrays))
            return {name: arrays[key] for name, key in outputs}

        return run

    def is_native(self) -> bool:
        """Whether the mirror takes less time than torch at any number of rows: no block that wants torch."""
        return self.make_mirror() is not None and all(map(_is_native, self._in_order))

    def _runs(self) -> list[list[Any]]:
        """The blocks in their order, together where they are dense layers in C++ that only follow each other."""
        readers = Counter(key for block in self._in_order for key in block.in_keys) + Counter(self.outputs.values())
        runs: list[list[Any]] = []
        for block in self._in_order:
            before = runs[-1][-1] if runs else None
            joined = (
                before is not None
                and block.in_keys == before.out_keys
                and readers[block.in_keys[0]] == 1
                and _native_layers(before)
                and _native_layers(block)
            )
            if joined:
                runs[-1].append(block)
            else:
                runs.append([block])
        return runs

    def _run(self, inputs: TensorDict) -> TensorDict:
        tensors = dict(inputs)
        is_mixed = self.precision != torch.float32
        for block in self._in_order:
            tensors.update(self._run_mixed(block, tensors) if is_mixed else block(tensors))
        return {name: tensors[key] for name, key in self._outputs}

    def prepare_for_export(self) -> None:
        """Compute in float32, which every runtime knows."""
        self.precision = torch.float32

    def _run_mixed(self, block: Any, tensors: TensorDict) -> TensorDict:
        """A block whose convolutions and matrix products are of `precision`; it reads and gives float32."""
        if getattr(block, FLOAT32, False):
            outputs: TensorDict = block(tensors)
            return outputs
        with torch.autocast(tensors[block.in_keys[0]].device.type, self.precision):
            outputs = block(tensors)
        return {key: out.float() if out.dtype == self.precision else out for key, out in outputs.items()}

    def _check_shapes(self, producers: Mapping[str, str]) -> dict[str, Shape]:
        shapes = dict(self.in_shapes)
        for name, block in zip(self.order, self._in_order, strict=True):
            for key, expected in zip(block.in_keys, block.in_shapes, strict=True):
                if shapes[key] != tuple(expected):
                    raise shape_error(name, key, shapes[key], tuple(expected), producers.get(key))
            shapes.update(zip(block.out_keys, block_out_shapes(block), strict=True))
        return shapes

    def _explain(self, inputs: TensorDict, error: Exception) -> None:
        """Raise a BlockError if an input does not have the shape the graph was built for."""
        for key, expected in self.in_shapes.items():
            tensor = inputs.get(key)
            if isinstance(tensor, Tensor):
                received = tuple(tensor.shape[max(0, tensor.dim() - len(expected)) :])
                if received == expected:
                    continue
            reader = next(
                (n for n, b in zip(self.order, self._in_order, strict=True) if key in b.in_keys), "the output"
            )
            shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else None
            raise shape_error(reader, key, shape, expected, None) from error


def block_out_shapes(block: Any) -> tuple[Shape, ...]:
    """`block.out_shapes()`, or by a forward pass where a module does not offer it."""
    if hasattr(block, "out_shapes"):
        return tuple(tuple(shape) for shape in block.out_shapes())
    return infer_out_shapes(block, block.in_keys, block.in_shapes, block.out_keys)


def shape_error(block: str, key: str, received: Shape | None, expected: Shape, producer: str | None) -> BlockError:
    """What a block got, what it was built for, and who gave it."""
    source = f"block {producer!r}" if producer is not None else "the observation"
    return BlockError(
        f"block {block!r} reads {key!r} in the wrong shape",
        received=f"{received} from {source}" if received is not None else f"nothing from {source}",
        expected=f"{expected}, leading batch dimensions apart",
        help=f"compare the output of {source} with the input of block {block!r}",
    )


def _native_layers(block: Any) -> list[DenseLayer]:
    """Of a class that is marked itself; what another one inherits may not be what it computes."""
    ask = getattr(block, "native_layers", None)
    return ask() if ask is not None and runs_same_operations([block]) else []


def _is_native(block: Any) -> bool:
    """Whether its mirror takes less time than torch; those without parameters only arrange numbers."""
    has_none = isinstance(block, nn.Module) and next(block.parameters(), None) is None
    return has_none or getattr(block, "is_small", False) or bool(_native_layers(block))


def _mirror_of(blocks: list[Any]) -> Mirror | None:
    """Blocks that follow each other, outside torch: dense layers in C++ as one call."""
    layers = [layer for block in blocks for layer in _native_layers(block)]
    if not layers:
        make = getattr(blocks[0], "make_mirror", None)
        mirror: Mirror | None = None if make is None else make()
        return mirror
    (in_key,), (out_key,) = blocks[0].in_keys, blocks[-1].out_keys
    run = DenseStack(layers, gives_new_arrays=getattr(blocks[-1], "is_small", False))
    return lambda arrays: {out_key: run(arrays[in_key])}


def _node(name: str, block: Any) -> BlockNode:
    return BlockNode(
        name=name,
        kind=type(block).__name__,
        in_keys=block.in_keys,
        out_keys=block.out_keys,
        n_parameters=count_parameters(block),
    )


def _producers(blocks: Mapping[str, Any], inputs: Mapping[str, Shape]) -> dict[str, str]:
    producers: dict[str, str] = {}
    for name, block in blocks.items():
        for key in block.out_keys:
            if key in inputs:
                raise BlockError(f"block {name!r} gives {key!r}, which is already an input", help="rename its output")
            if key in producers:
                raise BlockError(
                    f"blocks {producers[key]!r} and {name!r} both give {key!r}", help="rename one of the outputs"
                )
            producers[key] = name
    return producers


def _execution_order(
    blocks: Mapping[str, Any], producers: Mapping[str, str], inputs: Mapping[str, Shape], outputs: Any
) -> list[str]:
    """The blocks that the outputs need, each after those it reads from (depth first)."""
    order: list[str] = []
    path: list[str] = []

    def visit(key: str, reader: str) -> None:
        if key in inputs:
            return
        if key not in producers:
            known = ", ".join(sorted([*inputs, *producers]))
            raise BlockError(f"{reader} needs {key!r}, which nothing gives", received=known, help="check the keys")
        name = producers[key]
        if name in order:
            return
        if name in path:
            cycle = " -> ".join(repr(step) for step in (*path[path.index(name) :], name))
            raise BlockError(f"blocks feed each other in a circle: {cycle}", help="break the circle")
        path.append(name)
        for needed in blocks[name].in_keys:
            visit(needed, f"block {name!r}")
        path.pop()
        order.append(name)

    for key in outputs:
        visit(key, "the output")
    return order
