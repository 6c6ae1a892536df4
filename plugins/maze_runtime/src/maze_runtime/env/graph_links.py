"""Which observations are the links of a graph: pairs of node numbers, which are no amounts and are never scaled."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

NODES, LINKS = "nodes", "edge_links"


def links_of(observation: spaces.Dict) -> set[str]:
    """Boxes (…, 2) called `edge_links` beside `nodes`, or `x_edge_links` beside `x_nodes`.

    Networks of several policy keys may have `@key` behind both names.
    """
    return {name for name in observation.spaces if _is_links(observation, name)}


def _is_links(observation: spaces.Dict, name: str) -> bool:
    own, at, key = name.partition("@")
    prefix = own.removesuffix(LINKS)
    is_called_so = own.endswith(LINKS) and prefix[-1:] in ("", "_")
    return is_called_so and f"{prefix}{NODES}{at}{key}" in observation.spaces and _is_pairs(observation.spaces[name])


def _is_pairs(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and space.shape[-1:] == (2,)
