"""`--policy NAME --set policy.x=…`: a policy that needs no training, with its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_kernel.loader import Kernel
    from maze_kernel.selection import Selection

_PREFIX = "policy."


def split_overrides(overrides: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The `--set` items of the experiment, and those of the policy, `policy.x=…`."""
    of_policy = tuple(item for item in overrides if item.lstrip().startswith(_PREFIX))
    return tuple(item for item in overrides if item not in of_policy), of_policy


def select_policy(kernel: Kernel, name: str, overrides: tuple[str, ...]) -> Selection:
    """The policy of a name or import path.

    Args:
        overrides: `policy.x=…` items.

    Raises:
        ExperimentError: every problem of the name, the items and the options.
    """
    from maze_kernel.config import select
    from maze_kernel.config.origin import Origin
    from maze_kernel.config.overrides import apply_overrides
    from maze_kernel.config.problems import Problems

    problems = Problems(origin=Origin(file="--policy", python=True))
    data: dict[str, Any] = apply_overrides({"policy": {"use": name}}, overrides, problems)
    problems.raise_if_any()
    return select(kernel, "policy", data["policy"], origin="--policy")
