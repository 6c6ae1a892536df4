"""Features of a set of points, independent of their order and number (Qi et al. 2017, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_blocks_pointnet.options import PointNetOptions
from maze_perception.block import TensorDict
from maze_perception.blocks.dense import Layers
from maze_perception.blocks.pooling import pool
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.same_operations import same_operations


@same_operations
class AlignmentNetwork(nn.Module):
    """Computes a square matrix from a set of points, the identity before training, and multiplies the points by it."""

    def __init__(self, n_features: int, units: Sequence[int], non_lin: str) -> None:
        super().__init__()
        self.points = Layers(n_features, units, non_lin, bias=True)
        self.whole = Layers(units[-1], [max(1, units[-1] // 2)], non_lin, bias=True)
        self.matrix = nn.Linear(max(1, units[-1] // 2), n_features * n_features, bias=False)
        # zero whatever the model's initialisation does to the weights above
        self.scale = nn.Parameter(torch.zeros(()))
        self.n_features = n_features

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, N, D) points and (B, N) mask to (B, N, D)."""
        features = self.whole.forward(pool(self.points.forward(x), mask, "max", -2))
        change: Tensor = self.matrix(features).unflatten(-1, (self.n_features, self.n_features))
        # x (I + s M)
        return x + self.scale * (x @ change)


@same_operations
class PointNet(ShapeNormalizationBlock):
    """Points (B, N, D), and a mask (B, N) if there is one, to (B, hidden_units[-1])."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: PointNetOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=(3, 2)[: len(in_keys)])
        self.require_inputs("points, mask", 1, 2)
        self._masked = len(self.in_keys) == 2
        if self._masked:
            self.require_shape(1, self.in_shapes[0][:-1], "one entry a point")
        self._pooling = options.pooling
        n_features, (first, *further) = self.in_shapes[0][-1], options.hidden_units

        def alignment(size: int) -> AlignmentNetwork:
            return AlignmentNetwork(size, options.transform_units, options.non_lin)

        self.input_transform = alignment(n_features) if options.input_transform else None
        self.first = Layers(n_features, [first], options.non_lin, bias=True)
        self.feature_transform = alignment(first) if options.feature_transform else None
        self.further = Layers(first, further, options.non_lin, bias=True)

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, N, D) to (B, hidden_units[-1])."""
        x = inputs[self.in_keys[0]]
        mask = inputs[self.in_keys[1]] if self._masked else None
        if self.input_transform is not None:
            x = self.input_transform(x, mask)
        x = self.first.forward(x)
        if self.feature_transform is not None:
            x = self.feature_transform(x, mask)
        return {self.out_keys[0]: pool(self.further.forward(x), mask, self._pooling, -2)}
