"""Conformance of policies: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Group
from maze_testing.conformance import require, require_member, same


def check_policy(
    factory: Callable[[], Policy], spaces: StructuredSpaces, *, n_rows: int = 6, n_steps: int = 5, seed: int = 7
) -> None:
    """Actions lie in their spaces, a seed decides them, a restored state continues them.

    Args:
        factory: builds the policy for `spaces`; called several times.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    groups = {key: random_group(spaces, key, n_rows, seed) for key in spaces.policy_keys}
    first, second = factory(), factory()
    for policy in (first, second):
        policy.seed(seed)
        policy.begin_episodes(np.arange(n_rows))
    for _ in range(n_steps):
        require(same(_act(first, groups, spaces), _act(second, groups, spaces)), "one seed gives different actions")
    second = factory()
    second.begin_episodes(np.arange(n_rows))
    second.load_state_dict(first.state_dict())
    require(
        same(_act(first, groups, spaces), _act(second, groups, spaces)),
        "a policy restored from state_dict() acts differently",
    )


def _act(policy: Policy, groups: dict[str, Group], spaces: StructuredSpaces) -> list[Any]:
    actions = []
    for key, group in groups.items():
        action = {head: np.array(array) for head, array in policy.act(key, group).items()}
        for row in range(len(group.env_index)):
            single = {head: array[row] for head, array in action.items()}
            require_member(spaces.action[key], single, f"the action of policy key {key!r}")
        actions.append(action)
    return actions


def random_group(spaces: StructuredSpaces, key: str, n_rows: int, seed: int) -> Group:
    """Rows of random observations; masks allow everything, since a mask of zeros leaves nothing to decide."""
    space = spaces.observation[key]
    space.seed(seed)
    samples = [space.sample() for _ in range(n_rows)]
    rows = {name: np.stack([np.asarray(sample[name]) for sample in samples]) for name in space.spaces}
    for name, array in rows.items():
        if name.endswith("_mask"):
            array[:] = 1
    return Group(env_index=np.arange(n_rows), agent_id=np.zeros(n_rows, np.int64), observation=rows)
