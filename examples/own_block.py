"""A perception block: sines and cosines of learnt directions, from which dense layers learn fine detail sooner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import nn

from maze_kernel.validators import above, at_least
from maze_perception.block import Mirror, Shape, TensorDict
from maze_perception.shape_normalization import ShapeNormalizationBlock


@attrs.frozen(kw_only=True)
class FourierOptions:
    """Options of the block."""

    n_frequencies: int = attrs.field(default=16, validator=at_least(1))
    """Directions; the output has a sine and a cosine of each."""
    scale: float = attrs.field(default=1.0, validator=above(0.0))
    """Standard deviation of the directions before training: the larger, the finer the detail."""


class FourierFeatures(ShapeNormalizationBlock):
    """(B, D) to (B, 2 F): sin 2π W x, then cos 2π W x. Source: Tancik et al. 2020, equation 5.

    Args:
        in_keys: the one tensor it reads.
        out_keys: the one tensor it gives.
        in_shapes: shape of one sample of what it reads.
        options: sizes.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: FourierOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=2)
        self.require_one_in_one_out()
        n_features = self.in_shapes[0][-1]
        self.directions = nn.Parameter(torch.randn(options.n_frequencies, n_features) * options.scale)

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """Inputs have exactly one batch dimension here; the base class restores the others."""
        angles = 2.0 * math.pi * inputs[self.in_keys[0]] @ self.directions.T
        return {self.out_keys[0]: torch.cat([angles.sin(), angles.cos()], dim=-1)}

    def out_shapes(self) -> tuple[Shape, ...]:
        """Not needed: without it the shapes are found by a pass of zeros."""
        return ((*self.in_shapes[0][:-1], 2 * len(self.directions)),)

    def make_mirror(self) -> Mirror:
        """Not needed either: with it, rollouts on the CPU compute the block in NumPy, faster for small networks."""
        directions = self.directions.detach().numpy()  # the parameter's own memory: it follows the training

        def run(arrays: dict[str, Any]) -> dict[str, Any]:
            angles = np.float32(2.0 * math.pi) * arrays[self.in_keys[0]] @ directions.T
            return {self.out_keys[0]: np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)}

        return run
