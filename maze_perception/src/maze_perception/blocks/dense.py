"""Fully connected blocks, with NumPy twins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from maze_perception.block import BlockError, Mirror, PerceptionBlock, Shape, TensorDict
from maze_perception.mirror import ACTIVATIONS, IN_PLACE, ParameterArrays
from maze_perception.options import DenseOptions, FlattenDenseOptions, LinearOutputOptions
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.wide_products import linear
from maze_runtime.native.dense import DenseLayer, can_be_native

_N_BUFFERED_SIZES = 8

_FEW_INPUTS = 16


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`linear`, (..., in_features) to (..., out_features).

    The gradient of a tall, narrow weight costs three to six times that of the same numbers laid out wide (256 rows, 4
    inputs, 256 units: 102 instead of 17 microseconds), and autograd follows the layout met in the forward pass.
    """
    out_features, in_features = weight.shape
    if bias is None or x.ndim != 2 or in_features > min(_FEW_INPUTS, out_features) or not torch.is_grad_enabled():
        return linear(x, weight, bias)
    return torch.addmm(bias, x, weight.t().contiguous())


@same_operations
class Layers(nn.Module):
    """Linear layers with an activation after each."""

    def __init__(self, in_features: int, hidden_units: Sequence[int], non_lin: str, bias: bool) -> None:
        super().__init__()
        sizes = [in_features, *hidden_units]
        pairs = itertools.pairwise(sizes)
        layers = [nn.Linear(before, after, bias=bias) for before, after in pairs]
        self.linear = nn.ModuleList(layers)
        self.hidden_units = tuple(hidden_units)
        self.non_lin = non_lin
        # Into the tensor the linear layer made: another one would have to be fetched from memory first.
        self._activation = IN_PLACE.get(non_lin, ACTIVATIONS[non_lin][0])
        self._in_order = tuple(layers)  # a plain tuple is read much faster than a ModuleList
        self._wants_native = False

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., hidden_units[-1])."""
        for layer in self._in_order:
            x = self._activation(_affine(x, layer.weight, layer.bias))
        return x

    def prepare_for_compilation(self) -> None:
        """Let mirrors be made in C++ from now on, where that is faster."""
        self._wants_native = True

    def native_layers(self) -> list[DenseLayer]:
        """For C++, after `prepare_for_compilation`; empty where NumPy has to do."""
        if not self._wants_native or not can_be_native(self.non_lin):
            return []
        return [DenseLayer(weight=own.weight, bias=own.bias, activation=self.non_lin) for own in self._in_order]

    def make_mirror(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """The layers in NumPy. The result is overwritten by the next call with the same number of rows."""
        activation = ACTIVATIONS[self.non_lin][1]
        if activation is None:
            return None
        arrays = ParameterArrays(list(self.parameters()))
        units, has_bias = self.hidden_units, self.linear[0].bias is not None
        stride = 2 if has_bias else 1
        buffers: dict[int, list[np.ndarray]] = {}

        def run(x: np.ndarray) -> np.ndarray:
            n_rows = len(x)
            outs = buffers.get(n_rows)
            if outs is None:
                if len(buffers) == _N_BUFFERED_SIZES:
                    buffers.clear()
                outs = buffers[n_rows] = [np.empty((n_rows, size), np.float32) for size in units]
            parameters = arrays()
            for index, out in enumerate(outs):
                np.dot(x, parameters[stride * index], out)
                if has_bias:
                    out += parameters[2 * index + 1]
                activation(out)
                x = out
            return x

        return run


@same_operations
class Dense(ShapeNormalizationBlock):
    """Fully connected layers over the last dimension: (B, D) to (B, hidden_units[-1])."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: DenseOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=2)
        self.require_one_in_one_out()
        self._in_key, self._out_key = self.in_keys[0], self.out_keys[0]
        self.layers = Layers(self.in_shapes[0][-1], options.hidden_units, options.non_lin, options.bias)

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, D) to (B, H)."""
        return {self._out_key: self.layers.forward(inputs[self._in_key])}

    def make_mirror(self) -> Mirror | None:
        """For vectors."""
        run = self.layers.make_mirror()
        in_key, out_key = self._in_key, self._out_key
        if run is None or len(self.in_shapes[0]) != 1:
            return None
        return lambda arrays: {out_key: run(arrays[in_key])}

    def native_layers(self) -> list[DenseLayer]:
        """See `PerceptionBlock.native_layers`."""
        return self.layers.native_layers() if len(self.in_shapes[0]) == 1 else []

    def out_shapes(self) -> tuple[Shape, ...]:
        """The input's shape with its last size replaced."""
        return ((*self.in_shapes[0][:-1], self.layers.hidden_units[-1]),)


@same_operations
class FlattenDense(PerceptionBlock):
    """Joins trailing dimensions into one, then fully connected layers."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: FlattenDenseOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        self._in_key, self._out_key = self.in_keys[0], self.out_keys[0]
        shape = self.in_shapes[0]
        self._n_flat = options.num_flatten_dims or len(shape)
        if self._n_flat > len(shape):
            raise BlockError(
                f"FlattenDense cannot join {self._n_flat} dimensions of {self.in_keys[0]!r}",
                received=f"shape {shape}",
                expected=f"at least {self._n_flat} dimensions without the batch",
            )
        self._n_features = math.prod(shape[len(shape) - self._n_flat :])
        self.layers = Layers(self._n_features, options.hidden_units, options.non_lin, options.bias)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, ..., *flattened) to (B, ..., H)."""
        x = inputs[self._in_key]
        x = x.reshape(*x.shape[: x.dim() - self._n_flat], self._n_features)
        return {self._out_key: self.layers(x)}

    def make_mirror(self) -> Mirror | None:
        """Where all dimensions are flattened."""
        run = self.layers.make_mirror()
        in_key, out_key, n_features = self._in_key, self._out_key, self._n_features
        if run is None or self._n_flat != len(self.in_shapes[0]):
            return None
        return lambda arrays: {out_key: run(arrays[in_key].reshape(-1, n_features))}

    def native_layers(self) -> list[DenseLayer]:
        """See `PerceptionBlock.native_layers`."""
        return self.layers.native_layers() if self._n_flat == len(self.in_shapes[0]) else []


@same_operations
class LinearOutput(ShapeNormalizationBlock):
    """One linear layer without activation: (B, D) to (B, output_units), of which the last may be constants."""

    keeps_float32 = True  # logits and values: a bfloat16 has three digits
    is_small = True  # so few units take NumPy no longer than torch, whatever the number of rows

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: LinearOutputOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=2)
        self.require_one_in_one_out()
        self._in_key, self._out_key = self.in_keys[0], self.out_keys[0]
        n_linear = options.output_units - options.constant_units
        if n_linear < 1:
            raise BlockError(
                "LinearOutput has no unit left that reads its input",
                received=f"constant_units = {options.constant_units} of output_units = {options.output_units}",
                expected="fewer constant units than units",
            )
        self.linear = nn.Linear(self.in_shapes[0][-1], n_linear, bias=options.bias)
        self.constants = nn.Parameter(torch.zeros(options.constant_units)) if options.constant_units else None
        self._wants_native = False
        self._layer = (self.linear,)  # a plain tuple is read much faster than a registered module

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, D) to (B, output_units)."""
        (layer,), constants = self._layer, self.constants  # a parameter is never kept: `functional_call` exchanges it
        out = linear(inputs[self._in_key], layer.weight, layer.bias)
        if constants is not None:
            out = torch.cat([out, constants.expand(out.shape[0], -1)], -1)
        return {self._out_key: out}

    def make_mirror(self) -> Mirror | None:
        """For vectors; gives a new array at each call."""
        if len(self.in_shapes[0]) != 1:
            return None
        arrays = ParameterArrays(list(self.linear.parameters()))
        in_key, out_key, has_bias = self._in_key, self._out_key, self.linear.bias is not None

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            parameters = arrays()
            out = np.dot(inputs[in_key], parameters[0])
            if has_bias:
                out += parameters[1]
            return {out_key: out}

        return run if self.constants is None else _with_constants(run, out_key, self.constants)

    def prepare_for_compilation(self) -> None:
        """Let mirrors be made in C++ from now on, where that is faster."""
        self._wants_native = True

    def native_layers(self) -> list[DenseLayer]:
        """See `PerceptionBlock.native_layers`."""
        fits = len(self.in_shapes[0]) == 1 and self.constants is None
        if not self._wants_native or not fits or not can_be_native("identity"):
            return []
        return [DenseLayer(weight=self.linear.weight, bias=self.linear.bias, activation="identity")]

    def out_shapes(self) -> tuple[Shape, ...]:
        """The input's shape with its last size replaced."""
        n_constants = 0 if self.constants is None else len(self.constants)
        return ((*self.in_shapes[0][:-1], self.linear.out_features + n_constants),)


def _with_constants(run: Mirror, out_key: str, constants: Tensor) -> Mirror:
    """A mirror whose output (B, L) has the same numbers (C,) behind every row."""
    arrays, n_constants = ParameterArrays([constants]), len(constants)

    def run_with_constants(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        head = run(inputs)[out_key]
        out = np.empty((len(head), head.shape[1] + n_constants), np.float32)
        out[:, :-n_constants] = head
        out[:, -n_constants:] = arrays()[0]
        return {out_key: out}

    return run_with_constants


@torch.no_grad()
def initialise(module: nn.Module, init: str, gain: float) -> None:
    """Initial weights of every linear and convolution layer below `module`.

    Args:
        init: "orthogonal" (Saxe et al. 2014) with this gain, "normc" (normal, each unit's weights scaled to the norm
            `gain`), or "torch" (leave them).
        gain: √2 for bodies with "orthogonal", 1 for bodies with "normc", 0.01 for policy heads, 1 for value heads.
    """
    if init == "torch":
        return
    for layer in module.modules():
        if not isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            continue
        if init == "orthogonal":
            nn.init.orthogonal_(layer.weight, gain)
        else:
            rows = torch.randn_like(layer.weight).flatten(1)
            layer.weight.copy_((gain * rows / rows.norm(dim=1, keepdim=True)).view_as(layer.weight))
        if layer.bias is not None:
            layer.bias.zero_()
