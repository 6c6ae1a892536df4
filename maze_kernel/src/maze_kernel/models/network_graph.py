"""What a network is made of, as plain data: blocks with their parameters, tensors with their shapes.

Networks that are built from blocks say so by a method `block_nodes`; any other module is one block. Drawing is the run
room's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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
    """A model that can say what its networks are made of; the run draws them."""

    def network_graphs(self) -> tuple[NetworkGraph, ...]:
        """Every network, policies first."""
        ...


def graph_of(
    role: str,
    policy_key: str,
    modules: Sequence[Any],
    shapes: Mapping[str, Shape],
    outputs: Sequence[str],
    note: str = "",
) -> NetworkGraph:
    """The graph of modules that run one after the other, each on all tensors so far.

    Args:
        modules: with `block_nodes`, `shapes` and `outputs` as `maze_perception.inference.InferenceBlock` has them; a
            module without them becomes one block from all inputs to `outputs`.
        shapes: of what the environment gives.
        outputs: names that the last module returns.
    """
    blocks: list[BlockNode] = []
    known = dict(shapes)
    named: Mapping[str, str] = {}
    for module in modules:
        if hasattr(module, "block_nodes"):
            blocks += module.block_nodes()
            known |= {key: tuple(shape) for key, shape in module.shapes.items()}
            named = module.outputs
        else:
            named = {name: f"model/{name}" for name in outputs}
            blocks.append(_one_block(module, tuple(known), tuple(named.values())))
    read = {key: None for block in blocks for key in block.in_keys}
    made = {key for block in blocks for key in block.out_keys}
    return NetworkGraph(
        role=role,
        policy_key=policy_key,
        blocks=tuple(blocks),
        shapes=known,
        inputs=tuple(key for key in {**shapes, **read} if key not in made and (key in read or key in named.values())),
        outputs={name: key for name, key in named.items() if name in outputs},
        note=note,
    )


def _one_block(module: Any, in_keys: tuple[str, ...], out_keys: tuple[str, ...]) -> BlockNode:
    kind = type(module).__name__
    return BlockNode(name=kind, kind=kind, in_keys=in_keys, out_keys=out_keys, n_parameters=count_parameters(module))


def count_parameters(module: Any) -> int:
    """Trained numbers of a module; shared ones count once."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
