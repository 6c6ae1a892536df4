"""Masks in the last observations of episodes that were cut: a target asks what would be done there."""

from __future__ import annotations

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import FinalObservation, Group
from maze_runtime.models.masking import MaskError


def check_final_masks(policy: Policy, key: PolicyKey, final: FinalObservation, cut: np.ndarray, owner: str) -> None:
    """Ask the policy what it would do in the final observations of truncated episodes.

    Args:
        policy: it draws nothing.
        key: of the actors.
        final: what they saw last.
        cut: (N,) bool, environments whose episodes were truncated and not terminated.
        owner: whom the error names where it is more than one environment.

    Raises:
        MaskError: a mask forbids every choice there.
    """
    rows = np.flatnonzero(cut[final.env_index])
    if not len(rows):
        return
    agent_id = np.zeros(len(rows), np.int64) if final.agent_id is None else final.agent_id[rows]
    observation = {name: array[rows] for name, array in final.observation.items()}
    try:
        policy.act(key, Group(final.env_index[rows], agent_id, observation), deterministic=True)
    except MaskError as error:
        raise MaskError(
            f"{error.what} in the final observation of a truncated episode",
            received=error.received,
            expected="at least one allowed choice: a truncated episode would go on from there",
            owner=f"environment {int(final.env_index[rows][0])}" if len(rows) == 1 else owner,
            help="allow a choice there, or let the environment terminate the episode instead",
        ) from None
