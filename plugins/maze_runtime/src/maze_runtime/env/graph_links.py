"""Which observations are the links of a graph: pairs of node numbers, which are no amounts and are never scaled."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

NODES, LINKS = "nodes", "edge_links"


def links_of(observation: spaces.Dict) -> set[str]:
    """Boxes (…, 2) called `edge_links` beside `nodes`, or `x_edge_links` beside `x_nodes`."""
    return {name for name in observation.spaces if _is_links(observation, name)}


def _is_links(observation: spaces.Dict, name: str) -> bool:
    prefix, space = name.removesuffix(LINKS), observation.spaces[name]
    is_called_so = name.endswith(LINKS) and prefix[-1:] in ("", "_", ":")
    return is_called_so and f"{prefix}{NODES}" in observation.spaces and _is_pairs(space)


def _is_pairs(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and space.shape[-1:] == (2,)
