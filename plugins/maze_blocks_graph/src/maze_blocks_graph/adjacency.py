"""What blocks over a dense adjacency share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from maze_perception.block import TensorDict
from maze_perception.shape_normalization import ShapeNormalizationBlock


class AdjacencyBlock(ShapeNormalizationBlock):
    """Nodes (B, N, D) and adjacency (B, N, N) to nodes (B, N, H).

    Row i of the adjacency holds the weights with which node i receives from every node j. Subclasses write `nodes`.
    """

    def __init__(self, in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=3)
        self.require_inputs("nodes, adjacency", 2)
        *leading, n_nodes, self.n_features = self.in_shapes[0]
        self.require_shape(1, (*leading, n_nodes, n_nodes), "one weight for every pair of nodes")

    def nodes(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """(B, N, D) and (B, N, N) to (B, N, H)."""
        raise NotImplementedError

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """The nodes' new features."""
        return {self.out_keys[0]: self.nodes(inputs[self.in_keys[0]], inputs[self.in_keys[1]])}
