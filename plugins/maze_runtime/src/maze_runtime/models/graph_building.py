"""The graphs of a model's networks: made of its modules, and collected under names.

Networks that are built from blocks say so by a method `block_graph`; any other module is one block.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import chain, count
from typing import Any

import attrs

from maze_kernel.contracts.networks import BlockNode, NetworkGraph, Shape


def named_graphs(model: Any) -> dict[str, NetworkGraph]:
    """Every network of a model by a name that is a file's too: "policy", or "policy-cut" with several policy keys.

    Args:
        model: with the method of `DrawsNetworks`; one without it has no graphs.
    """
    graphs_of = getattr(model, "network_graphs", None)
    graphs: Sequence[NetworkGraph] = () if graphs_of is None else graphs_of()
    only_key = len({graph.policy_key for graph in graphs}) == 1
    names = [graph.role if only_key else f"{graph.role}-{graph.policy_key}" for graph in graphs]
    return dict(zip(file_names([name.replace(".", "-") for name in names]), graphs, strict=True))


def file_names(names: Sequence[str]) -> list[str]:
    """Names, such as policy keys, without what a file's name cannot hold, each of them different from the others."""
    found: list[str] = []
    for name in names:
        free = _in_file_name(name)
        while free in found:
            free += "-"
        found.append(free)
    return found


def _in_file_name(words: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in words)


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
        modules: with `block_graph` and `outputs` as `maze_perception.inference.InferenceBlock` has them; a
            module without them becomes one block from all inputs to `outputs`.
        shapes: of what the environment gives.
        outputs: names that the last module returns.
    """
    blocks: list[BlockNode] = []
    known = dict(shapes)
    named: Mapping[str, str] = {}
    for module in modules:
        if hasattr(module, "block_graph"):
            nodes, inner_shapes = module.block_graph()
            fresh = _fresh_keys(nodes, blocks)
            blocks += _renamed(nodes, blocks, fresh)
            known |= {fresh.get(key, key): tuple(shape) for key, shape in inner_shapes.items()}
            named = {name: fresh.get(key, key) for name, key in module.outputs.items()}
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


def _fresh_keys(nodes: Sequence[BlockNode], before: Sequence[BlockNode]) -> dict[str, str]:
    """Other names for the tensors that are called like one of a module before, as those of two classes of one name."""
    made = {key for node in before for key in node.out_keys}
    return {key: _fresh(key, made) for node in nodes for key in node.out_keys if key in made}


def _renamed(nodes: Sequence[BlockNode], before: Sequence[BlockNode], fresh: Mapping[str, str]) -> list[BlockNode]:
    taken = {node.name for node in before}
    return [
        attrs.evolve(
            node,
            name=_fresh(node.name, taken),
            in_keys=tuple(fresh.get(key, key) for key in node.in_keys),
            out_keys=tuple(fresh.get(key, key) for key in node.out_keys),
        )
        for node in nodes
    ]


def _fresh(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it where it is taken."""
    names = chain([name], (f"{name} [{number}]" for number in count(2)))
    return next(free for free in names if free not in taken)


def _one_block(module: Any, in_keys: tuple[str, ...], out_keys: tuple[str, ...]) -> BlockNode:
    kind = type(module).__name__
    return BlockNode(name=kind, kind=kind, in_keys=in_keys, out_keys=out_keys, n_parameters=count_parameters(module))


def count_parameters(module: Any) -> int:
    """Trained numbers of a module; shared ones count once."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
