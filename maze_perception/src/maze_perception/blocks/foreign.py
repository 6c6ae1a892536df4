"""Blocks around the user's own code: any function of tensors, any torch.nn.Module, by import path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from maze_perception.block import BlockError, PerceptionBlock, TensorDict
from maze_perception.inner_blocks import Inner, inner_blocks
from maze_perception.options import FunctionalOptions, TorchModelOptions
from maze_runtime.env.importing import imported

OWNER = "maze-perception"


class Functional(PerceptionBlock):
    """Calls a function with its inputs, which keep their leading dimensions."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: FunctionalOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self._function = imported(options.function, owner=f"{OWNER}: functional", option="function")
        self._kwargs = dict(options.kwargs)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """What the function gives, by name."""
        return named(self, self._function(*(inputs[key] for key in self.in_keys), **self._kwargs))


class TorchModel(PerceptionBlock):
    """A module of the user's, called with tensors of one batch dimension."""

    keeps_weights = True  # its author's, learnt elsewhere perhaps

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: TorchModelOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        module = imported(options.module, owner=f"{OWNER}: torch-model", option="module")(**options.kwargs)
        if not isinstance(module, nn.Module):
            raise BlockError(
                f"block torch-model: {options.module!r} does not make a torch.nn.Module",
                received=type(module).__name__,
                expected="a class derived from torch.nn.Module",
            )
        self.module = module

    def forward(self, inputs: TensorDict) -> TensorDict:
        """The module's outputs with the leading dimensions of the inputs."""
        first = inputs[self.in_keys[0]]
        leading = first.shape[: first.dim() - len(self.in_shapes[0])]
        if len(leading) == 1:
            return named(self, self.module(*(inputs[key] for key in self.in_keys)))
        flat = [
            inputs[key].reshape(math.prod(leading), *shape)
            for key, shape in zip(self.in_keys, self.in_shapes, strict=True)
        ]
        outputs = named(self, self.module(*flat))
        return {key: tensor.reshape(*leading, *tensor.shape[1:]) for key, tensor in outputs.items()}

    def inner_blocks(self, name: str) -> Inner:
        """Its layers as they are drawn, and the shapes between them."""
        return inner_blocks(name, self, self.module)


def named(block: PerceptionBlock, result: Any) -> TensorDict:
    """The result of foreign code by the names of the block's outputs.

    Args:
        block: whose outputs they are.
        result: a tensor, a tuple or list of tensors, or a dict of tensors.

    Raises:
        BlockError: another number of tensors, another type, or a name that is missing.
    """
    if isinstance(result, Tensor):
        result = (result,)
    if isinstance(result, dict):
        if set(block.out_keys) <= set(result):
            return {key: result[key] for key in block.out_keys}
    elif isinstance(result, (tuple, list)) and len(result) == len(block.out_keys):
        return dict(zip(block.out_keys, result, strict=True))
    content = sorted(result) if isinstance(result, dict) else type(result).__name__
    raise BlockError(
        f"{type(block).__name__} got other outputs from its code than it was asked for",
        received=f"{content}" if not isinstance(result, (tuple, list)) else f"{len(result)} tensors",
        expected=f"one tensor for each of {list(block.out_keys)}",
    )
