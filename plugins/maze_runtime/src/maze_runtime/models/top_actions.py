"""The most probable actions of a policy, with their probabilities."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import torch
from gymnasium import spaces

from maze_kernel.contracts.model import ActionDistribution, Distribution
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import SpaceError


@attrs.frozen
class ActionCandidate:
    """One action and how probable it is.

    Attributes:
        action: name to action, or the action itself where there is one name.
        probability: of the whole action, 0 to 1: the product over its parts.
    """

    action: Any
    probability: float


def top_actions(
    distribution: ActionDistribution, space: spaces.Dict, logits: Mapping[str, np.ndarray], n_actions: int
) -> list[tuple[ArrayDict, float]]:
    """The most probable actions of one decision and their probabilities, the best first.

    Heads, and the dimensions of a MultiDiscrete or MultiBinary one, are independent of each other, so the best
    actions are combinations of the best choices; what a mask forbids is left out.

    Args:
        distribution: of the policy key.
        space: its action space.
        logits: head to (1, L), masks applied.
        n_actions: how many; fewer where there are fewer.

    Raises:
        SpaceError: a head has no choices to count.
    """
    best: list[tuple[float, dict[str, np.ndarray]]] = [(0.0, {})]
    for head, part in distribution.heads.items():
        of_head = torch.from_numpy(np.array(logits[head]))
        base = part.mode(of_head)
        best = [(log_prob, {**action, head: base[0].numpy().copy()}) for log_prob, action in best]
        for index, values, log_probs in _choices(part, space.spaces[head], head, of_head, base):
            longer = (
                (log_prob + more, _with_choice(action, head, index, value))
                for log_prob, action in best
                for value, more in zip(values, log_probs.tolist(), strict=True)
                if np.isfinite(more)
            )
            best = heapq.nlargest(n_actions, longer, key=lambda one: one[0])
    return [(action, float(np.exp(log_prob))) for log_prob, action in best if np.exp(log_prob) > 0.0]


def _choices(
    distribution: Distribution, space: spaces.Space[Any], head: str, logits: torch.Tensor, base: torch.Tensor
) -> Iterator[tuple[int, range, torch.Tensor]]:
    """For each dimension of a head its place, its values, and their log-probabilities."""
    for index, values in enumerate(_values(space, head)):
        actions = base.reshape(1, -1).repeat(len(values), 1)
        actions[:, index] = torch.as_tensor(list(values), dtype=actions.dtype)
        rows = logits.expand(len(values), *logits.shape[1:])
        log_prob = distribution.log_prob(rows, actions.reshape(len(values), *base.shape[1:]))
        # The other dimensions stay at their modes: what they add is the same for every value.
        yield index, values, torch.log_softmax(log_prob.to(torch.float64), 0)


def _values(space: spaces.Space[Any], head: str) -> list[range]:
    if isinstance(space, spaces.Discrete):
        return [range(int(space.start), int(space.start + space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        starts, counts = np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist()
        return [range(start, start + n) for start, n in zip(starts, counts, strict=True)]
    if isinstance(space, spaces.MultiBinary):
        return [range(2)] * int(np.prod(space.shape))
    raise SpaceError(
        f"the actions of head {head!r} cannot be ranked: there are no single choices",
        received=str(space),
        expected="Discrete, MultiDiscrete or MultiBinary",
        owner="maze-runtime: top_actions",
        help="ask for one action, the most probable one with deterministic=True",
    )


def _with_choice(action: ArrayDict, head: str, index: int, value: int) -> ArrayDict:
    changed = action[head].copy()
    changed.reshape(-1)[index] = value
    return {**action, head: changed}
