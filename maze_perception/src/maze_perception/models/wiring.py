"""The table `[model.inputs]` of `concat`: blocks that read several observations, or other blocks, together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_perception.graph import BuildBlock, GraphBuilder
from maze_runtime.models.shared_critic import ReadTogether

Wiring = Mapping[str, Sequence[str]]
"""Block to what it reads: other blocks of the table, or observations, in the order of its inputs."""


def check_wiring(wiring: Wiring, blocks: Iterable[str], observations: Iterable[str]) -> None:
    """Refuse a table that names what does not exist.

    Raises:
        RequestError: names the entry, or the circle in which blocks read each other.
    """
    blocks, observations = set(blocks), set(observations)
    for block, sources in wiring.items():
        if block not in blocks:
            raise unknown_name(f"[model.inputs] names the block {block!r}", blocks)
        if not sources:
            raise RequestError(
                f"[model.inputs] {block} reads nothing",
                received="an empty list",
                expected=f"some of {', '.join(sorted(observations | set(wiring) - {block}))}",
                owner="maze-perception",
            )
        for source in sources:
            if source not in observations and source not in wiring:
                raise unknown_name(f"[model.inputs] {block} reads {source!r}", observations | set(wiring) - {block})
    for block in wiring:
        _refuse_circles(wiring, [block])


def _refuse_circles(wiring: Wiring, path: list[str]) -> None:
    for source in wiring[path[-1]]:
        if source not in wiring or source == path[-1]:
            continue
        if source in path:
            circle = " -> ".join(repr(step) for step in (*path[path.index(source) :], source))
            raise RequestError(f"[model.inputs]: blocks read each other in a circle: {circle}", help="break the circle")
        _refuse_circles(wiring, [*path, source])


def wired_observations(wiring: Wiring) -> set[str]:
    """Observations that are read by the blocks of the table."""
    sources = {(block, source) for block, names in wiring.items() for source in names}
    return {source for block, source in sources if source == block or source not in wiring}


def observations_below(block: str, wiring: Wiring) -> set[str]:
    """The observations that a block reads, itself or through other blocks."""
    found: set[str] = set()
    for source in wiring[block]:
        is_block = source != block and source in wiring
        found |= observations_below(source, wiring) if is_block else {source}
    return found


def wired_groups(wiring: Wiring, present: Iterable[str]) -> list[ReadTogether]:
    """Blocks whose observations are there: those that have one in common stand in one group."""
    present = set(present)
    groups: list[tuple[set[str], set[str]]] = []
    for block in wiring:
        observations, blocks = observations_below(block, wiring), {block}
        if observations <= present:
            for group in [group for group in groups if not observations.isdisjoint(group[0])]:
                groups.remove(group)
                observations, blocks = observations | group[0], blocks | group[1]
            groups.append((observations, blocks))
    return [
        ReadTogether(tuple(sorted(observations)), {block: tuple(wiring[block]) for block in blocks})
        for observations, blocks in groups
    ]


def add_wired(
    graph: GraphBuilder,
    names: Iterable[str],
    suffix: str,
    blocks: Mapping[str, Selection],
    wiring: Wiring,
    builder: Callable[[Selection], BuildBlock],
) -> list[str]:
    """Add the blocks of the table whose observations are there; returns the keys of those that no other one reads.

    Args:
        names: observations; the network has the `suffix` behind their names, and behind those of the blocks.
        builder: from a selection to what builds its block.

    Raises:
        RequestError: only a part of a block's observations is there.
    """
    part = _Part(graph, blocks, wiring, builder, suffix, set(names))
    read = {source for block, sources in wiring.items() for source in sources if source != block}
    return [part.add(block) for block in wiring if block not in read and part.is_there(block)]


class _Part:
    """The blocks of one set of observations."""

    def __init__(
        self,
        graph: GraphBuilder,
        blocks: Mapping[str, Selection],
        wiring: Wiring,
        builder: Callable[[Selection], BuildBlock],
        suffix: str,
        present: set[str],
    ) -> None:
        self._graph, self._blocks, self._wiring, self._builder = graph, blocks, wiring, builder
        self._suffix, self._present = suffix, present
        self._keys: dict[str, str] = {}

    def is_there(self, block: str) -> bool:
        """Whether the observations below a block are there: all of them, or none."""
        found = {source: source in self._present for source in observations_below(block, self._wiring)}
        if any(found.values()) and not all(found.values()):
            missing = next(source for source, there in found.items() if not there)
            raise RequestError(
                f"[model.inputs] {block} reads {missing!r}, which a policy key does not observe",
                received=", ".join(sorted(self._present)),
                owner="maze-perception",
                help="give the policy keys blocks of their own",
            )
        return all(found.values())

    def add(self, block: str) -> str:
        """Add a block after those that it reads; returns the key of its output."""
        if block not in self._keys:
            sources = [self._key(block, source) for source in self._wiring[block]]
            name = block + self._suffix
            build = self._builder(self._blocks[block])
            self._keys[block] = self._graph.add(name, build, sources, f"model/{name}")
        return self._keys[block]

    def _key(self, block: str, source: str) -> str:
        return self.add(source) if source != block and source in self._wiring else source + self._suffix


def unknown_name(what: str, known: set[str]) -> RequestError:
    """The error for a table that names what does not exist: it names what does."""
    return RequestError(
        f"{what}, which does not exist", expected=f"one of {', '.join(sorted(known))}", owner="maze-perception"
    )
