"""The contract of a perception block: a module from a dict of tensors to a dict of tensors, with known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from maze_kernel.errors import RequestError
from maze_runtime.models.tensor_dict import TensorDict as TensorDict
from maze_runtime.native.dense import DenseLayer

Shape = tuple[int, ...]
Mirror = Callable[[dict[str, Any]], dict[str, Any]]
"""A block in NumPy: reads its inputs from a dict of (B, ...) float32 arrays and returns its outputs."""


class BlockError(RequestError):
    """Blocks that cannot be joined: a wrong shape, a missing or duplicate key, a cycle."""


class PerceptionBlock(nn.Module):
    """Base of the blocks.

    Args:
        in_keys: names of the tensors it reads.
        out_keys: names of the tensors it gives.
        in_shapes: shape of one sample of each input, without batch dimension.

    Subclasses write `forward`. They may write `make_mirror` to be evaluated in NumPy during rollouts, and
    `keeps_float32 = True` where they cannot compute in another precision, and `keeps_weights = True` where a model's
    `init` leaves their weights as they are.

    Attributes:
        numbered: inputs that hold numbers of something, of classes say, to how many of these there are.
    """

    numbered: Mapping[str, int] = MappingProxyType({})

    def __init__(self, in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.in_keys = tuple(in_keys)
        self.out_keys = tuple(out_keys)
        self.in_shapes = tuple(tuple(int(size) for size in shape) for shape in in_shapes)
        if len(self.in_keys) != len(self.in_shapes):
            raise BlockError(
                f"{type(self).__name__} has {len(self.in_keys)} inputs and {len(self.in_shapes)} input shapes",
                expected="one shape an input",
            )

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, *in_shape) tensors by name, more than its own inputs perhaps, to (B, *out_shape) tensors by name."""
        raise NotImplementedError

    def out_shapes(self) -> tuple[Shape, ...]:
        """Shape of one sample of each output, found by a forward pass of zeros."""
        return infer_out_shapes(self, self.in_keys, self.in_shapes, self.out_keys)

    def make_mirror(self) -> Mirror | None:
        """The block in NumPy, or None. It reads the parameters' memory and need not copy its outputs."""
        return None

    def native_layers(self) -> list[DenseLayer]:
        """What the block is made of where C++ may run it in place of `make_mirror`; empty where it may not."""
        return []

    def require_one_in_one_out(self) -> None:
        """Refuse more than one input or output."""
        if len(self.in_keys) != 1 or len(self.out_keys) != 1:
            raise BlockError(
                f"{type(self).__name__} takes one input and gives one output",
                received=f"inputs {list(self.in_keys)}, outputs {list(self.out_keys)}",
                expected="one key each",
            )

    def require_inputs(self, meaning: str, minimum: int, maximum: int | None = None, *, max_outputs: int = 1) -> None:
        """Refuse another number of inputs or outputs.

        Args:
            meaning: what the inputs are, in their order.
            minimum: fewest inputs.
            maximum: most inputs; None: as many as `minimum`.
            max_outputs: most outputs; the fewest are one.
        """
        maximum = minimum if maximum is None else maximum
        if not minimum <= len(self.in_keys) <= maximum or not 1 <= len(self.out_keys) <= max_outputs:
            number = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
            outputs = "one output" if max_outputs == 1 else f"1 to {max_outputs} outputs"
            raise BlockError(
                f"{type(self).__name__} takes {number} inputs ({meaning}) and gives {outputs}",
                received=f"inputs {list(self.in_keys)}, outputs {list(self.out_keys)}",
                expected=f"{number} inputs, {outputs}",
            )

    def require_shape(self, index: int, expected: Shape, meaning: str) -> None:
        """Refuse input number `index` if its shape is not `expected`.

        Raises:
            BlockError: names the block, the input, both shapes and the input they follow from.
        """
        if self.in_shapes[index] != tuple(expected):
            raise BlockError(
                f"{type(self).__name__} cannot read {self.in_keys[index]!r}",
                received=f"shape {self.in_shapes[index]}",
                expected=f"{tuple(expected)}, {meaning}, beside {self.in_keys[0]!r} of shape {self.in_shapes[0]}",
            )


def infer_out_shapes(
    module: nn.Module, in_keys: Sequence[str], in_shapes: Sequence[Shape], out_keys: Sequence[str]
) -> tuple[Shape, ...]:
    """Shapes of one sample of each output, found by a forward pass of two samples of zeros.

    Raises:
        BlockError: the forward pass fails, or does not give an output.
    """
    name = type(module).__name__
    outputs = run_on_zeros(name, module, module, dict(zip(in_keys, in_shapes, strict=True)))
    missing = [key for key in out_keys if key not in outputs]
    if missing:
        raise BlockError(
            f"{name} does not give its output {missing[0]!r}",
            received=str(sorted(outputs)),
            expected=str(list(out_keys)),
        )
    return tuple(tuple(outputs[key].shape[1:]) for key in out_keys)


def require_announced(block: Any, out_shapes: Sequence[Shape]) -> None:
    """Check by a forward pass of two samples of zeros that a block gives what it announces, in single precision.

    Args:
        block: with `in_keys`, `out_keys` and `in_shapes`.
        out_shapes: shape of one sample of each output, as the block says it.

    Raises:
        BlockError: the forward pass fails, or gives something else.
    """
    name = type(block).__name__
    outputs = run_on_zeros(name, block, block, dict(zip(block.in_keys, block.in_shapes, strict=True)))
    for key, shape in zip(block.out_keys, out_shapes, strict=True):
        output = outputs.get(key) if isinstance(outputs, Mapping) else None
        if not isinstance(output, Tensor):
            received = str(sorted(outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise BlockError(
                f"{name} does not give its output {key!r}",
                received=received,
                expected=f"a dict with a tensor under each of {list(block.out_keys)}",
            )
        is_other = output.dtype.is_floating_point and output.dtype != torch.float32
        if tuple(output.shape) != (2, *shape) or is_other:
            raise BlockError(
                f"{name} does not give what it announces as {key!r}",
                received=f"shape {tuple(output.shape)}, {output.dtype} for two samples of zeros",
                expected=f"shape {(2, *shape)}, {torch.float32}",
                help="let out_shapes say the shape of one sample, or leave it out: a pass of zeros finds it",
            )


def run_on_zeros(
    name: str, module: nn.Module, forward: Callable[[TensorDict], TensorDict], in_shapes: Mapping[str, Shape]
) -> TensorDict:
    """What a network gives for two samples of zeros, without gradients and in evaluation mode.

    Args:
        name: of the network, for the error.
        module: whose mode is set meanwhile, and whose device the zeros are on.
        forward: is called with them.
        in_shapes: input to shape of one sample.

    Raises:
        BlockError: it fails; names the network and the shapes.
    """
    device = next(module.parameters(), torch.empty(0)).device
    inputs = {key: torch.zeros(2, *shape, device=device) for key, shape in in_shapes.items()}
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return forward(inputs)
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError) as error:
        raise BlockError(
            f"{name} fails on zeros of its input shapes: {error}",
            received=", ".join(f"{key} {tuple(shape)}" for key, shape in in_shapes.items()),
        ) from error
    finally:
        module.train(was_training)
