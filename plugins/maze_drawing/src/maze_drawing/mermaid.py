"""Networks as Mermaid text: a flowchart that Markdown viewers draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maze_kernel.contracts.networks import NetworkGraph


def mermaid(graphs: Sequence[NetworkGraph]) -> str:
    """One flowchart with a part for each network.

    Source: https://mermaid.js.org/syntax/flowchart.html.
    """
    lines = ["flowchart TD"]
    for index, graph in enumerate(graphs):
        note = f" · {graph.note}" if graph.note else ""
        title = f"{graph.role} of {graph.policy_key} · {graph.n_parameters:,} parameters{note}"
        lines.append(f'    subgraph n{index}["{_quoted(title)}"]')
        lines += [f"        {line}" for line in _part(f"n{index}", graph)]
        lines.append("    end")
    return "\n".join(lines) + "\n"


def _part(prefix: str, graph: NetworkGraph) -> Iterator[str]:
    source: dict[str, str] = {}
    for index, key in enumerate(graph.inputs):
        source[key] = f"{prefix}i{index}"
        yield f'{source[key]}(["{_quoted(key)}<br/>{graph.shape_text(key)}"])'
    for index, block in enumerate(graph.blocks):
        node = f"{prefix}b{index}"
        yield f'{node}["{_quoted(block.name)}<br/>{_quoted(graph.caption(block))}"]'
        source |= dict.fromkeys(block.out_keys, node)
    for index, name in enumerate(graph.outputs):
        yield f'{prefix}o{index}(["{_quoted(name)}"])'
    for index, block in enumerate(graph.blocks):
        for key in block.in_keys:
            yield f"{source[key]} -->{_label(graph, key)} {prefix}b{index}"
    for index, key in enumerate(graph.outputs.values()):
        yield f"{source[key]} -->{_label(graph, key)} {prefix}o{index}"


def _label(graph: NetworkGraph, key: str) -> str:
    """The shape on the arrow; inputs carry theirs in the box."""
    text = "" if key in graph.inputs else graph.shape_text(key)
    return f'|"{text}"|' if text else ""


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
