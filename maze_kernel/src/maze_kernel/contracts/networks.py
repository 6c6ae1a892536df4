"""What a network is made of, as plain data: blocks with their parameters, tensors with their shapes.

Records only: `graph_building` makes them of a model's modules, and who draws them is a logger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

Shape = tuple[int, ...]


@attrs.frozen(kw_only=True)
class BlockNode:
    """One block: what it reads, what it gives, and how many trained numbers it holds."""

    name: str
    kind: str
    """Class of the block."""
    in_keys: tuple[str, ...]
    out_keys: tuple[str, ...]
    n_parameters: int


@attrs.frozen(kw_only=True)
class NetworkGraph:
    """One network of a model.

    Attributes:
        role: "policy", "critic" or "action values".
        policy_key: whose network it is.
        blocks: in the order in which they run.
        shapes: every tensor's name to the shape of one sample.
        inputs: tensors that the environment gives.
        outputs: name under which a tensor leaves the network, to the tensor.
        note: what a reader should know besides, e.g. that it exists twice.
    """

    role: str
    policy_key: str
    blocks: tuple[BlockNode, ...]
    shapes: Mapping[str, Shape]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    note: str = ""

    @property
    def n_parameters(self) -> int:
        """Trained numbers of all blocks."""
        return sum(block.n_parameters for block in self.blocks)

    def share(self, block: BlockNode) -> float:
        """The block's part of the network's parameters, 0 to 1."""
        return block.n_parameters / max(1, self.n_parameters)

    def caption(self, block: BlockNode) -> str:
        """What stands below a block's name: class, parameters and share."""
        if not block.n_parameters:
            return f"{block.kind} · no parameters"
        return f"{block.kind} · {block.n_parameters:,} · {self.share(block):.1%}"

    def shape_text(self, key: str) -> str:
        """The shape of a tensor as people write it; empty where nobody knows it."""
        return " × ".join(map(str, self.shapes[key])) or "number" if key in self.shapes else ""


class DrawsNetworks(Protocol):
    """A model that can say what its networks are made of; loggers draw them."""

    def network_graphs(self) -> tuple[NetworkGraph, ...]:
        """Every network, policies first."""
        ...
