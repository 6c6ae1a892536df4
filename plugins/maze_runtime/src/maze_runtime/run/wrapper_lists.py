"""The list of an experiment's wrappers: where it is cut in two, what it may not hold, and its saved statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import ComponentError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.env.blame import blamed, of_transform
from maze_runtime.run.env_factory import build_transform, is_transform
from maze_runtime.run.placing import placed


def load_transforms(transforms: Sequence[Transform], states: Sequence[Mapping[str, Any]]) -> None:
    """Restore saved statistics into transforms built from the same wrappers."""
    if len(transforms) != len(states):
        raise RequestError(
            "the saved wrapper statistics do not fit the experiment's wrappers",
            received=f"statistics of {len(states)} wrappers",
            expected=f"of {len(transforms)}",
            help="keep the [[wrappers]] tables as they were when the run was saved",
        )
    for transform, state in zip(transforms, states, strict=True):
        if state:
            transform.load_state_dict(state)


def states_of(transforms: Sequence[Transform]) -> list[dict[str, Any]]:
    """What `load_transforms` takes.

    Raises:
        ComponentError: a transform raised.
    """
    states = []
    for transform in transforms:
        with of_transform(transform, "state_dict"):
            states.append(dict(transform.state_dict()))
    return states


def bound(transform: Transform, inner: StructuredSpaces, selection: Selection) -> StructuredSpaces:
    """The spaces outside of a transform, which is bound to those inside.

    Raises:
        MazeError: it does not fit them, or returns none; shown at its place in the experiment.
    """
    who = f"wrapper {selection.use!r}"
    with placed(selection), blamed(who, "in bind", owner=selection.owner):
        outer = transform.bind(inner)
        if not isinstance(outer, StructuredSpaces):
            raise ComponentError(
                f"{who} returned no spaces from bind",
                phase="binding a wrapper",
                received=type(outer).__name__,
                expected="StructuredSpaces, as they are seen from outside",
                help="return the spaces that it was given where nothing changes",
            )
    return outer


def refuse_statistics_inside(wrappers: Sequence[Selection]) -> None:
    """Refuse a transform with statistics inside an env wrapper: each environment would keep its own, unsaved."""
    for wrapper in wrappers:
        if is_transform(wrapper) and _keeps_statistics(wrapper):
            raise RequestError(
                f"wrapper '{wrapper.use}' keeps statistics of all environments but stands inside one that wraps each",
                location=wrapper.location,
                owner=wrapper.owner,
                help=f"move it behind '{wrappers[-1].use}' in the [[wrappers]] list",
            )


def refuse_shared_tags(wrappers: Sequence[Selection]) -> None:
    """Refuse wrappers that report under the same name: their statistics would be mixed."""
    seen: set[tuple[str, str]] = set()
    for wrapper in wrappers:
        name = wrapper.option("name")
        if not isinstance(name, str) or not is_transform(wrapper):
            continue
        if (wrapper.target, name) in seen:
            raise RequestError(
                f"two wrappers {wrapper.use!r} report under the same tags",
                received=f"name = {name!r} in both" if name else "no name in either",
                location=wrapper.location,
                option="name",
                owner=wrapper.owner,
                help='give each a name of its own, such as name = "processed"',
            )
        seen.add((wrapper.target, name))


def _keeps_statistics(wrapper: Selection) -> bool:
    transform = build_transform(wrapper)
    return transform.saves_state or transform.keeps_running_statistics or transform.reports


def split_wrappers(wrappers: Sequence[Selection]) -> tuple[tuple[Selection, ...], tuple[Selection, ...]]:
    """Those up to the last env wrapper, which see single environments, and the transforms outside of them."""
    last = max((index for index, wrapper in enumerate(wrappers) if not is_transform(wrapper)), default=-1)
    return tuple(wrappers[: last + 1]), tuple(wrappers[last + 1 :])
