"""Builds a graph of blocks one block at a time, keeping the shapes and saying whose fault a misfit is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.errors import MazeError
from maze_kernel.selection import Selection
from maze_perception.block import BlockError, Shape, require_announced
from maze_perception.blocks.dense import initialise
from maze_perception.inference import InferenceBlock, block_out_shapes
from maze_runtime.models.recurrence import BEGINS, STATE
from maze_runtime.run.placing import placed

BuildBlock = Callable[[Sequence[str], Sequence[str], Sequence[Shape]], Any]
"""(in_keys, out_keys, in_shapes) to a block."""


def chosen_block(catalog: Any, selection: Selection) -> BuildBlock:
    """Builds a block that an experiment selects; where that fails, the error is shown there."""

    def build(in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Shape]) -> Any:
        with placed(selection):
            return catalog.build(selection, in_keys, out_keys, in_shapes)

    return build


KEEPS_WEIGHTS = "keeps_weights"
"""Attribute of blocks whose weights are as their constructor made them, whatever `init` says."""


class GraphBuilder:
    """Blocks added so far, and the shape of every tensor.

    Args:
        inputs: name to shape of one sample.
        init: how linear and convolution layers are initialised.
        given: names of blocks whose outputs are among the inputs, because another network runs them.
    """

    def __init__(self, inputs: Mapping[str, Shape], init: str = "torch", given: Iterable[str] = ()) -> None:
        self.inputs = dict(inputs)
        self.given = frozenset(given)
        self.shapes: dict[str, Shape] = dict(inputs)
        self._init = init
        self._names: set[str] = set()
        self._blocks: dict[str, nn.Module] = {}
        self._producers: dict[str, str] = {}

    @property
    def body_gain(self) -> float:
        """Gain of the initial weights of layers that an activation follows."""
        return 2.0**0.5 if self._init == "orthogonal" else 1.0

    def add(self, name: str, build: BuildBlock, in_keys: Sequence[str], out_key: str, gain: float | None = None) -> str:
        """Build a block with one output and return that output's key; a block may carry state besides.

        Raises:
            BlockError: there is a block of that name already.
            MazeError: the block cannot be built for its inputs; names the block and who gives the inputs.
        """
        if name in self._names:
            raise BlockError(
                f"two blocks of the model are called {name!r}",
                expected="a name of its own for each; layers behind the blocks of [model.blocks] have fixed names",
                help=f"give the block {name!r} in [model.blocks], or the observation it is named by, another name",
            )
        self._names.add(name)
        if name in self.given:
            return out_key
        in_shapes = [self.shapes[key] for key in in_keys]
        try:
            block = build(in_keys, (out_key,), in_shapes)
            shape, *_ = out_shapes = block_out_shapes(block)
            require_announced(block, out_shapes)
        except MazeError as error:
            sources = ", ".join(f"{key!r} {self.shapes[key]} from {self._source(key)}" for key in in_keys)
            error.what = f"block {name!r}: {error.what}"
            error.received = f"{error.received}; inputs: {sources}" if error.received else sources
            raise
        if not getattr(block, KEEPS_WEIGHTS, False):
            initialise(block, self._init, self.body_gain if gain is None else gain)
        for key, in_shape in zip(block.in_keys, block.in_shapes, strict=True):
            if key == BEGINS or key.startswith(STATE):
                self.inputs[key] = self.shapes[key] = tuple(in_shape)
        self._blocks[name] = block
        self._producers[out_key] = name
        self.shapes[out_key] = shape
        return out_key

    def set_bias(self, name: str, bias: Tensor) -> None:
        """Give the linear layer of a `linear-output` block its initial bias (L,)."""
        block: Any = self._blocks[name]
        with torch.no_grad():
            block.linear.bias.copy_(bias)

    def numbered(self) -> Iterator[tuple[str, str, int]]:
        """Block, input and number of what that holds numbers of; see `PerceptionBlock.numbered`."""
        for name, block in self._blocks.items():
            yield from ((name, key, n_numbers) for key, n_numbers in getattr(block, "numbered", {}).items())

    def name_head(self, name: str, head: str) -> None:
        """Say that a block gives the logits of an action head and nothing else: its attribute `action_head`."""
        block: Any = self._blocks[name]
        block.action_head = head

    def require_vector(self, key: str) -> str:
        """Refuse a tensor that is not one vector a sample.

        Raises:
            BlockError: names the block that gives it.
        """
        if len(self.shapes[key]) != 1:
            raise BlockError(
                f"{self._source(key)} does not give a vector",
                received=f"{key!r} of shape {self.shapes[key]}",
                expected="one dimension without the batch",
                help='use a block that flattens, for example "flatten-dense"',
            )
        return key

    def require_steps(self, key: str, other: str) -> None:
        """Refuse sequences (T, D) of different lengths.

        Raises:
            BlockError: names the blocks that give them.
        """
        if self.shapes[key][0] != self.shapes[other][0]:
            raise BlockError(
                f"{self._source(key)} gives another number of steps than {self._source(other)}",
                received=f"{key!r} {self.shapes[key]} and {other!r} {self.shapes[other]}",
                expected="sequences (T, D) of one length T, which are joined step by step",
                help='reduce each to a vector of its own, for example with "gru-last-step"',
            )

    def build(self, outputs: Sequence[str] | Mapping[str, str]) -> InferenceBlock:
        """The module that gives `outputs`."""
        return InferenceBlock(self._blocks, self.inputs, outputs)

    def split(self, names: Iterable[str]) -> tuple[InferenceBlock, GraphBuilder, GraphBuilder]:
        """Cut behind some blocks.

        Returns:
            A module of these blocks and all that they read from, which gives every tensor of its own; a builder with
            the other blocks added so far, and an empty one for another network behind the same module.

        Raises:
            BlockError: there is no block of one of the names.
        """
        names = tuple(names)
        for name in names:
            if name not in self._blocks:
                raise BlockError(f"there is no block {name!r} to share", expected=f"one of {', '.join(self._blocks)}")
        shared = self.build([key for key, name in self._producers.items() if name in names])
        tensors = [key for key, name in self._producers.items() if name in shared.order]
        inputs = {**self.inputs, **{key: self.shapes[key] for key in tensors}}
        rest = GraphBuilder(inputs, self._init, shared.order)
        rest._blocks = {name: block for name, block in self._blocks.items() if name not in shared.order}
        rest._names = self._names
        rest._producers, rest.shapes = self._producers, self.shapes
        return self.build(tensors), rest, GraphBuilder(inputs, self._init, shared.order)

    def _source(self, key: str) -> str:
        return f"block {self._producers[key]!r}" if key in self._producers else f"observation {key!r}"
