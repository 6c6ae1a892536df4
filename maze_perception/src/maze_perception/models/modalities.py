"""What kind of thing each observation is, told from its space and its name, and the default stack of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.config.load import select
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.errors import PluginError
from maze_perception.blocks.image import ImageFeatures
from maze_perception.graph import GraphBuilder
from maze_runtime.env.graph_links import LINKS, NODES
from maze_runtime.models.image_layout import channels_first
from maze_runtime.models.shared_critic import ReadTogether

EDGES, NODE_MASK = "edges", "node_mask"


@attrs.frozen(kw_only=True)
class Modality:
    """Observations that one stack reads together.

    Attributes:
        kind: "image", "graph", "set", "sequence" or "vector".
        name: of what is drawn and stored.
        parts: role to observation; "main" is the first.
    """

    kind: str
    name: str
    parts: Mapping[str, str]

    def read_together(self) -> ReadTogether:
        """Its observations and its stack."""
        parts = tuple(self.parts.values())
        return ReadTogether(parts, {} if self.kind == "vector" else {f"{self.name} {self.kind}": parts})


def modalities_of(
    observation: spaces.Dict,
    features: Iterable[str],
    sequences: Iterable[str] = (),
    readers: Mapping[str, tuple[PolicyKey, ...]] | None = None,
) -> list[Modality]:
    """Every feature in exactly one modality: what is said to be a sequence, graphs, masked sets, images, else vectors.

    Args:
        sequences: names of observations (T, D) whose first dimension is time.
        readers: feature to the policy keys that see it; only what the same ones see is read together.
    """
    names, seen_by = list(features), readers or {}
    said = [name for name in names if name.partition("@")[0] in sequences]
    found = [Modality(kind="sequence", name=name, parts={"main": name}) for name in said]
    left = [name for name in names if name not in said]
    for take in (_graph, _set):
        for name in list(left):
            beside = [other for other in left if seen_by.get(other) == seen_by.get(name)]
            modality = take(observation, name, beside) if name in left else None
            if modality is not None:
                found.append(modality)
                left = [other for other in left if other not in modality.parts.values()]
    return [*found, *(_alone(observation[name], name) for name in left)]


def is_image(space: spaces.Space[Any]) -> bool:
    """A Box of three dimensions, or of two with bytes, at least 8 pixels high and wide."""
    if not isinstance(space, spaces.Box):
        return False
    if len(space.shape) == 2:
        return bool(space.dtype == np.uint8) and min(space.shape) >= 8
    return len(space.shape) == 3 and min(channels_first(space.shape)[0][1:]) >= 8


def rows_of(space: spaces.Space[Any]) -> tuple[int, ...]:
    """The shape of a space whose rows networks can tell apart; () for MultiDiscrete, encoded as one vector."""
    return () if isinstance(space, spaces.MultiDiscrete) else space.shape or ()


def _graph(observation: spaces.Dict, name: str, left: list[str]) -> Modality | None:
    """`nodes` (N, D) and `edge_links` (E, 2), and `edges` (E, F) and `node_mask` (N,) where they are; any prefix."""
    base, at, key = name.partition("@")
    prefix = base.removesuffix(NODES)
    if not base.endswith(NODES) or (prefix and not prefix.endswith("_")):
        return None
    parts = {role: f"{prefix}{role}{at}{key}" for role in (NODES, LINKS, EDGES, NODE_MASK)}
    parts = {role: part for role, part in parts.items() if part in left}
    shapes = {role: rows_of(observation[part]) for role, part in parts.items()}
    if LINKS not in parts or len(shapes[NODES]) != 2 or not all(shapes.values()):
        return None
    return Modality(kind="graph", name=f"{prefix}graph{at}{key}", parts=parts)


def _set(observation: spaces.Dict, name: str, left: list[str]) -> Modality | None:
    """Items (N, D) and `<name>_mask` (N,)."""
    base, at, key = name.partition("@")
    mask = f"{base}_mask{at}{key}"
    shape = rows_of(observation[name])
    if len(shape) != 2 or mask not in left or rows_of(observation[mask]) != shape[:1]:
        return None
    return Modality(kind="set", name=name, parts={"main": name, "mask": mask})


def _alone(space: spaces.Space[Any], name: str) -> Modality:
    kind = "image" if is_image(space) else "vector"
    return Modality(kind=kind, name=name, parts={"main": name})


_READ_AS = {"image": "an image", "graph": "a graph", "set": "a masked set", "sequence": "a sequence"}


def told(observation: spaces.Dict, modalities: Iterable[Modality]) -> str:
    """How observations are read, in words: "position (4,) as numbers, inventory (200, 2) as numbers, flattened"."""
    return ", ".join(_told(observation, modality) for modality in modalities)


def _told(observation: spaces.Dict, modality: Modality) -> str:
    names = " and ".join(modality.parts.values())
    space = observation[next(iter(modality.parts.values()))]
    shape = space.shape or ()
    if isinstance(space, spaces.Discrete):
        return f"{names} as a one-hot of {space.n}"
    if modality.kind == "vector" and isinstance(space, spaces.MultiDiscrete):
        return f"{names} {shape} as one-hots"
    flat = "numbers, flattened" if len(shape) > 1 else "numbers"
    return f"{names} {shape} as {_READ_AS.get(modality.kind, flat)}"


def add_stack(graph: GraphBuilder, modality: Modality, catalog: Any) -> str:
    """Add the default stack of anything but a vector; returns the key of a vector."""
    name, parts = modality.name, modality.parts
    if modality.kind == "image":
        return graph.add(f"{name}_image", ImageFeatures, (name,), f"model/{name}_image")
    if modality.kind == "sequence":
        return _add(graph, catalog, f"{name}_sequence", {"use": "gru-last-step"}, (name,))
    if modality.kind == "set":
        options = {"use": "point-net", "hidden_units": [64, 64]}
        return _add(graph, catalog, f"{name}_set", options, (name, parts["mask"]))
    inputs = [parts[role] for role in (NODES, LINKS, EDGES) if role in parts]
    nodes = _add(graph, catalog, name, {"use": "message-passing"}, inputs)
    mask = [parts[NODE_MASK]] if NODE_MASK in parts else []
    return _add(graph, catalog, f"{name}_pooling", {"use": "masked-global-pooling"}, (nodes, *mask))


def _add(graph: GraphBuilder, catalog: Any, name: str, table: dict[str, Any], inputs: Iterable[str]) -> str:
    """Add a block of the catalog.

    Raises:
        PluginError: the distribution that offers the block is not there; names it.
    """
    try:
        catalog.find("block", table["use"])
    except PluginError as error:
        raise _missing(table["use"], list(inputs), error) from error
    selection = select(catalog, "block", table)
    return graph.add(name, lambda *arguments: catalog.build(selection, *arguments), tuple(inputs), f"model/{name}")


def _missing(use: str, inputs: list[str], error: PluginError) -> PluginError:
    return PluginError(
        f"the default model reads the observation {inputs[0]!r} with the block {use!r}, which is not installed",
        received=error.what,
        owner="maze-perception",
        help=f"{error.help}, or write a [model] table with other blocks",
    )
