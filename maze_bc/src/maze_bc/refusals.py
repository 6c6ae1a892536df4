"""What stops a training: numbers that are not finite, recorded actions that their own masks forbid, other episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from maze_bc.data import OWNER
from maze_bc.minibatches import Batch
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.errors import RequestError
from maze_runtime.models.masking import MASKED_LOGIT
from maze_runtime.training.non_finite import non_finite_update

FORBIDDEN_LOSS = -0.01 * MASKED_LOGIT
"""A head whose loss is above this was forced to a choice that a mask forbids. A mean over n decisions that is above
an n-th of it is looked into."""


def refuse_non_finite(batch: Batch, n_updates: int) -> None:
    """Stop because of a loss or gradient.

    Raises:
        NonFiniteError: always; carries the minibatch.
    """
    raise non_finite_update(f"update {n_updates}", _columns(batch), owner=OWNER)


def refuse_forbidden_action(model: ActorCritic, batch: Batch) -> None:
    """Stop if a mask forbids a recorded action; a loss that is large for another reason passes.

    Raises:
        RequestError: names the policy key and the head.
    """
    with torch.no_grad():
        for key, rows in batch.items():
            logits = model.logits(key, rows.observation, rows.agent_id)
            for name, head in model.distributions[key].heads.items():
                forbidden = -head.log_prob(logits[name], rows.action[name]) > FORBIDDEN_LOSS
                if rows.weight is not None:
                    forbidden &= rows.weight > 0
                if bool(forbidden.any()) and bool((logits[name] <= 0.1 * MASKED_LOGIT).any()):
                    raise RequestError(
                        f"the mask of action head {name!r} of policy key {key!r} forbids a recorded action",
                        received=f"{rows.action[name][forbidden][0].tolist()} in the demonstrations",
                        expected="masks under which the demonstrator acted",
                        owner=OWNER,
                        help="record the episodes in an environment with the same masks",
                    )


def identity_of(lengths: Sequence[int]) -> dict[str, Any]:
    """What tells the recorded episodes of a run from others, by the decisions of each."""
    rows = np.asarray(lengths, np.int64)
    digest = hashlib.sha256(rows.tobytes()).hexdigest()
    return {"n_episodes": len(rows), "n_decisions": int(rows.sum()), "digest": digest}


def require_same_episodes(stored: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Refuse to go on with other episodes: they would be split and ordered anew.

    Args:
        stored: `identity_of` the episodes that the run began with.
        present: of those there are now.

    Raises:
        RequestError: says how many they were and are.
    """
    if stored != present:
        received, expected = (f"{own['n_episodes']} with {own['n_decisions']} decisions" for own in (present, stored))
        raise RequestError(
            "the recorded episodes are not those that this run began with",
            received=f"{received} in another order" if received == expected else received,
            expected=expected,
            option="demonstrations",
            owner=OWNER,
            help="put the recording back as it was, or start a new run with"
            ' initialize_from = "RUN" to go on from its weights',
        )


def _columns(batch: Batch) -> dict[str, np.ndarray]:
    """The arrays of a batch by name, for a report."""
    columns: dict[str, np.ndarray] = {}
    for key, rows in batch.items():
        for what, tensors in (("observation", rows.observation), ("action", rows.action)):
            columns |= {f"{key}.{what}.{name}": tensor.cpu().numpy() for name, tensor in tensors.items()}
    return columns
